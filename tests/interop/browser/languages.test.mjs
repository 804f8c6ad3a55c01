// Languages: every text is in the catalogue, right-to-left layout works, and one file adds a language.

import assert from 'node:assert/strict'
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { newFolder } from '../lib/folders.mjs'
import { run } from '../lib/program.mjs'
import { newVisitor, startServer } from './page-driver.mjs'
import { openTransfers, visitContents, visitViews } from './views.mjs'

const WEB = fileURLToPath(new URL('../../../web', import.meta.url))

/** In the page: visible or spoken texts in plain letters. The pseudo-language changes all letters of our texts. */
function untranslatedTexts() {
  const found = []
  const isTheirs = (element) =>
    element.closest('[translate=no], .prose, .words, .source, .pdf-text, time, script, style, noscript, iframe') !== null
  const check = (words, where) => {
    // Ignore the test's own content and the texts of the browser's library.
    const ours = words.replace(/\.md\b|\b(?:[1-6]\.\w+|index\.md|lobby|\d+ seconds? ago|Watchfire)\b/g, '')
    if (/[a-z]{2}/i.test(ours)) found.push(`${where}: ${words.trim().slice(0, 80)}`)
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const { parentElement, textContent } = walker.currentNode
    if (!isTheirs(parentElement)) check(textContent, parentElement.tagName)
  }
  for (const element of document.querySelectorAll('[aria-label], [title], [placeholder]')) {
    if (isTheirs(element)) continue
    for (const name of ['aria-label', 'title', 'placeholder']) check(element.getAttribute(name) ?? '', `${element.tagName} ${name}`)
  }
  return found
}

test('no text is missing from the catalogue', async (t) => {
  const untranslated = []
  const checkView = async ({ tab }, where) => {
    assert.equal(await tab.evaluate(() => document.documentElement.lang), 'en-XA')
    untranslated.push(...(await tab.evaluate(untranslatedTexts)).map((words) => `${where}, ${words}`))
  }
  await visitViews(t, { locale: 'en-XA' }, checkView)
  await visitContents(t, { locale: 'en-XA' }, checkView)
  assert.deepEqual(untranslated, [])
})

test('a right-to-left language is laid out from right to left', async (t) => {
  const person = await newVisitor(t, await startServer(t), { locale: 'ar-XB', viewport: { width: 390, height: 780 } })
  const main = person.tab.getByRole('main')
  const fits = async (where) => {
    const layout = await person.tab.evaluate(() => {
      const { dir, scrollWidth, clientWidth } = document.documentElement
      return { dir, wider: scrollWidth - clientWidth }
    })
    assert.deepEqual(layout, { dir: 'rtl', wider: 0 }, where)
  }
  await person.goTo('/')
  await main.locator('.home h1').waitFor()
  await fits('home')
  const brand = await person.tab.locator('.brand').boundingBox()
  assert(brand.x > 195, 'the brand is not at the right')
  await main.locator('textarea').fill('שלום')
  await main.locator('button.light').click()
  await main.locator('input.link').waitFor()
  await openTransfers(main)
  await main.locator('.transfers .block-bar').waitFor()
  await fits('a page')
  assert.equal(
    await main.locator('input.link').evaluate((field) => getComputedStyle(field).direction),
    'ltr',
    'a link is not written from left to right',
  )
})

/** Builds the web app with one more language file; returns the folder of the build. */
async function builtWith(t, tag, change) {
  const folder = newFolder(t)
  for (const name of await readdir(WEB)) {
    if (name !== 'node_modules' && name !== 'dist') await cp(path.join(WEB, name), path.join(folder, name), { recursive: true })
  }
  await symlink(path.join(WEB, 'node_modules'), path.join(folder, 'node_modules'))
  // The file that a translator receives and returns.
  const { stdout } = await run('npm', ['run', '--silent', 'messages'], { cwd: folder, maxBuffer: 1 << 24 })
  const languages = path.join(folder, 'app/src/messages/languages')
  await mkdir(languages, { recursive: true })
  await writeFile(path.join(languages, `${tag}.json`), JSON.stringify(change(JSON.parse(stdout))))
  await run('npm', ['run', 'build'], { cwd: folder, maxBuffer: 1 << 24 })
  return path.join(folder, 'dist')
}

/**
 * Maps every Latin letter, except in placeholders, to another alphabet.
 * @returns {Record<string, any>}
 */
function inHebrew(english) {
  const letters = 'אבגדהוזחטיכלמנסעפצקרשתךםןף'
  const text = (words) =>
    words
      .split(/(\{\w+\})/)
      .map((piece, i) => (i % 2 === 1 ? piece : piece.replace(/[a-z]/gi, (letter) => letters[letter.toLowerCase().charCodeAt(0) - 97])))
      .join('')
  const forms = new Intl.PluralRules('he').resolvedOptions().pluralCategories
  const message = (words) => (typeof words === 'string' ? text(words) : Object.fromEntries(forms.map((form) => [form, text(words.other)])))
  const part = (messages) => Object.fromEntries(Object.entries(messages).map(([name, words]) => [name, message(words)]))
  const { direction: _, ...parts } = english
  return { direction: 'rtl', ...Object.fromEntries(Object.entries(parts).map(([name, messages]) => [name, part(messages)])) }
}

const KINDS = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.json': 'application/json' }

/** Serves that build to the visitor's browser in place of the app. */
async function serveBuild(person, dist) {
  await person.tab.route(
    (url) => url.pathname === '/' || /^\/(?:p|assets)\//.test(url.pathname) || url.pathname === '/worker.js',
    async (route) => {
      const { pathname } = new URL(route.request().url())
      const name = /^\/(?:assets\/|worker\.js)/.test(pathname) ? pathname.slice(1) : 'index.html'
      const body = await readFile(path.join(dist, name)).catch(() => null)
      if (body === null) return route.abort()
      await route.fulfill({ body, contentType: KINDS[path.extname(name)] ?? 'application/octet-stream' })
    },
  )
}

test('one file adds a language and costs the first load of other languages next to nothing', async (t) => {
  const server = await startServer(t)
  const [person, english] = [await newVisitor(t, server, { locale: 'he-IL' }), await newVisitor(t, server, { locale: 'en-GB' })]
  // Created after the visitors, so that the visitors are closed before the build is removed.
  const dist = await builtWith(t, 'he', inHebrew)
  for (const each of [person, english]) await serveBuild(each, dist)
  const fetched = []
  for (const each of [person, english]) each.tab.on('request', (request) => fetched.push([each, new URL(request.url()).pathname]))
  const untranslated = []
  const check = async (where) => untranslated.push(...(await person.tab.evaluate(untranslatedTexts)).map((words) => `${where}, ${words}`))
  const main = person.tab.getByRole('main')

  await person.goTo('/')
  await main.locator('.room', { hasText: '4' }).waitFor()
  const layout = await person.tab.evaluate(() => ({ lang: document.documentElement.lang, dir: document.documentElement.dir }))
  assert.deepEqual(layout, { lang: 'he', dir: 'rtl' })
  await check('home')
  await main.locator('textarea').fill('שלום')
  await main.locator('button.light').click()
  await main.locator('input.link').waitFor()
  await openTransfers(main)
  await main.locator('.transfers .block-bar').waitFor()
  await check('a page and its panel')
  assert.deepEqual(untranslated, [])

  await english.goTo('/')
  await english.waitForText('Light this page')
  assert.equal(await english.tab.evaluate(() => document.documentElement.lang), 'en')
  const catalogues = (visitor) => fetched.filter(([each, name]) => each === visitor && /\/he-/.test(name)).length
  assert.equal(catalogues(person), 1, 'the catalogue was not fetched once')
  assert.equal(catalogues(english), 0, 'an English reader fetched a catalogue')
  const worker = await readFile(path.join(dist, 'worker.js'), 'utf8')
  const refusal = inHebrew({ refusals: { nothing: 'There is nothing here.' } }).refusals.nothing
  assert(worker.includes(refusal), 'the service worker lacks a translated refusal')
})
