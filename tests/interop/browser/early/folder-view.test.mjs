// The view of a folder: its title, tree, order, filter and gallery, and very many files.

import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { waitUntil } from '../../lib/deadlines.mjs'
import { folderBlocksOf } from '../bitswap-messages.mjs'
import { picture } from '../fixtures.mjs'
import { newVisitor, startServer, WAIT_MS, WINDOWS } from '../page-driver.mjs'
import { honestHolder, joinPage, LimitedHolder } from '../raw-peer.mjs'

const OUT = fileURLToPath(new URL('../../out', import.meta.url))
const FILES = 10_000
/** Lines in the document at any time: those in view, and twenty above and below. */
const LINES_MAX = 120

const namesIn = (tab) => tab.locator('.file-rows li').evaluateAll((lines) => lines.map((line) => line.querySelector('a, bdi').textContent))

test('a folder has its name as title, and is a tree that can be sorted, filtered and walked with the keyboard', async (t) => {
  const { visitor } = await openFolder(t, albumFiles(), '#filename=Summer')
  const { tab } = visitor
  await tab.getByRole('heading', { name: 'Summer', level: 1 }).waitFor()
  await visitor.waitForText('10 files')
  assert.deepEqual(await namesIn(tab), ['days', 'one.png', 'two.png', ...[1, 2, 3, 4, 5, 6, 7].map((i) => `note ${i}.txt`), 'plan.md'])

  const days = tab.getByRole('button', { name: 'days' })
  await days.focus()
  await tab.keyboard.press('ArrowLeft')
  assert.equal(await days.getAttribute('aria-expanded'), 'false')
  await tab.keyboard.press('ArrowDown')
  assert.equal(await tab.evaluate(() => document.activeElement.textContent), 'note 1.txt')

  await tab.getByLabel('Sort by').selectOption('Size')
  assert.equal((await namesIn(tab))[1], 'plan.md')
  await tab.getByLabel('Filter by name').fill('TWO')
  await visitor.waitForText('1 file has this in its name.')
  assert.deepEqual(await namesIn(tab), ['days/two.png'])
  await tab.getByLabel('Filter by name').fill('')

  await tab.getByRole('button', { name: 'Gallery' }).click()
  const tiles = tab.locator('.gallery img')
  await waitUntil(
    () => tiles.evaluateAll((images) => images.length === 2 && images.every((image) => image.naturalWidth === 240)),
    'both pictures are in the gallery',
    WAIT_MS,
  )
  await tab.getByRole('link', { name: 'days/two.png' }).click()
  await visitor.waitForPicture('days/two.png')
  visitor.assertNoPageErrors()
})

test('a file that is opened from the end of a long list is in view, and Back returns to the place in the list', async (t) => {
  const files = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`file ${i}.txt`, Buffer.from(`Words of ${i}.`)]))
  const { visitor } = await openFolder(t, files, '#filename=Long')
  const { tab } = visitor
  // The progress above the list goes when all is here, and the list moves up.
  await visitor.waitUntilComplete()
  const last = tab.getByRole('link', { name: 'file 59.txt' })
  await last.scrollIntoViewIfNeeded()
  const before = await tab.evaluate(() => scrollY)
  assert(before > 500, `the list is scrolled by ${before} pixels`)
  await last.click()
  await visitor.waitForText('Words of 59.')
  const { top, bottom } = await tab.getByText('Words of 59.').evaluate((words) => {
    const { top, bottom } = words.getBoundingClientRect()
    return { top, bottom }
  })
  const screen = tab.viewportSize().height
  assert(top >= 0 && bottom <= screen, `the text is at ${top} to ${bottom} of ${screen} pixels`)
  assert.equal(await tab.evaluate(() => document.activeElement.tagName), 'MAIN')
  await tab.goBack()
  await visitor.waitForTextGone('Words of 59.')
  const place = () => tab.evaluate(() => scrollY)
  await waitUntil(async () => Math.abs((await place()) - before) <= 1, 'the list is where it was').catch(async (error) => {
    throw new Error(`${error.message}: at ${await place()} instead of ${before}`)
  })
})

test('a name in any script begins beside its icon, and a very long one takes no screen', async (t) => {
  const long = `${'so long '.repeat(30).trim()}.txt`
  const files = { 'plain.txt': Buffer.from('Plain.'), 'שלום.txt': Buffer.from('Peace.'), [long]: Buffer.from('Long.') }
  const { visitor } = await openFolder(t, files, '#filename=Names')
  const { tab } = visitor
  const leftOf = (name) =>
    tab.getByRole('link', { name }).evaluate((link) => {
      const words = document.createRange()
      words.selectNodeContents(link)
      return words.getBoundingClientRect().left
    })
  assert.equal(await leftOf('שלום.txt'), await leftOf('plain.txt'))
  await tab.setViewportSize({ width: 390, height: 780 })
  await tab.getByRole('link', { name: long }).click()
  await visitor.waitForText('Long.')
  const { height } = await tab.locator('.file > header').boundingBox()
  assert(height < 100, `the line above the text is ${height} pixels high`)
  visitor.assertNoPageErrors()
})

test('10,000 files open without a pause: only the lines in view are in the document', async (t) => {
  const files = Object.fromEntries(Array.from({ length: FILES }, (_, i) => [`file ${i}.txt`, Buffer.from(`${i}`)]))
  const { visitor } = await openFolder(t, files, '#filename=Many', (blocks) => new LimitedHolder(blocks, 1).answer)
  const { tab } = visitor
  await visitor.waitForText('10,000 files')
  await tab.getByRole('link', { name: 'file 0.txt' }).waitFor()
  assert((await tab.locator('.file-rows li').count()) <= LINES_MAX)
  const longest = await tab.evaluate(() => globalThis.longestTask)
  t.diagnostic(`the longest task took ${Math.round(longest)} ms`)

  await tab.evaluate(() => scrollTo(0, document.documentElement.scrollHeight))
  await tab.getByRole('link', { name: 'file 9999.txt' }).waitFor()
  assert((await tab.locator('.file-rows li').count()) <= LINES_MAX)
  await tab.getByLabel('Filter by name').fill('999')
  await visitor.waitForText('19 files have this in their names.')
  visitor.assertNoPageErrors()
})

test('a folder of 100,000 empty files is refused with the limit, and the tab stays usable', async (t) => {
  const hundred = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`${i}.txt`, Buffer.alloc(0)]))
  const files = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`part ${i}`, { ...hundred, [`only in ${i}`]: Buffer.alloc(0) }]))
  const { visitor } = await openFolder(t, files, '')
  await visitor.waitForText('This page cannot be shown')
  await visitor.waitForText(/65,?536/)
  await visitor.tab.getByRole('link', { name: 'Watchfire' }).click()
  await visitor.tab.getByRole('textbox', { name: 'Text of the page' }).waitFor()
})

test('the folder and the gallery are looked at in a wide and a narrow window, in both themes', async (t) => {
  await mkdir(OUT, { recursive: true })
  for (const { shape, viewport, colorScheme } of WINDOWS) {
    const { visitor } = await openFolder(t, albumFiles(), '#filename=Summer', undefined, { viewport, colorScheme })
    await visitor.waitForText('10 files')
    await waitUntil(() => visitor.tab.locator('.thumbnail').count(), 'thumbnails are shown', WAIT_MS)
    await visitor.tab.screenshot({ path: path.join(OUT, `folder-${shape}-${colorScheme}.png`), animations: 'disabled', fullPage: true })
    await visitor.tab.getByRole('button', { name: 'Gallery' }).click()
    await waitUntil(() => visitor.tab.locator('.gallery img').count(), 'the gallery is shown', WAIT_MS)
    await visitor.tab.screenshot({ path: path.join(OUT, `gallery-${shape}-${colorScheme}.png`), animations: 'disabled', fullPage: true })
    visitor.assertNoPageErrors()
  }
})

function albumFiles() {
  const notes = Object.fromEntries([1, 2, 3, 4, 5, 6, 7].map((i) => [`note ${i}.txt`, Buffer.from(`Note ${i}`)]))
  return {
    days: { 'one.png': picture(240, 160), 'two.png': picture(240, 180) },
    ...notes,
    'plan.md': Buffer.from(`# Plan\n${'We walk. '.repeat(2000)}`),
  }
}

async function openFolder(t, files, fragment, answer = honestHolder, options = {}) {
  const { root, blocks } = folderBlocksOf(files)
  const server = await startServer(t)
  await joinPage(t, server, root, 'all', answer(blocks))
  const visitor = await newVisitor(t, server, options)
  await visitor.tab.addInitScript(() => {
    globalThis.longestTask = 0
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) globalThis.longestTask = Math.max(globalThis.longestTask, duration)
    }).observe({ type: 'longtask', buffered: true })
  })
  await visitor.goTo(`/p/${root}${fragment}`)
  return { visitor }
}
