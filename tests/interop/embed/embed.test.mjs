// Another site uses our packages: it shares files that are dropped on it, and shows pages with <watch-fire>.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { before, test } from 'node:test'

import { areConnected, newDirectVisitor, sessionsOf } from '../browser/direct-connections.mjs'
import { drop, folderOf } from '../browser/dropped-files.mjs'
import { film } from '../browser/films.mjs'
import { addressOf, newVisitor, startServer, WAIT_MS } from '../browser/page-driver.mjs'
import { Command } from '../lib/command-line.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { run } from '../lib/program.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { EXAMPLES } from './readme-examples.mjs'
import { REPOSITORY } from './packed.mjs'
import { serveSite } from './site.mjs'
import { typeErrors } from './typed-program.mjs'

const after = []
const site = { origin: '', connectTo: (/** @type {string} */ _) => {}, keepTo: (/** @type {string} */ _) => {}, requested: [''] }
before(async () => Object.assign(site, await serveSite({ after: (/** @type {() => void} */ end) => after.push(end) })))
test.after(() => Promise.all(after.map((end) => end())))

test('npm installs the packages as the guide says, and Node imports them', async (t) => {
  const guide = readFileSync(`${REPOSITORY}docs/how-to/embed-a-page.md`, 'utf8')
  const [, command] = /`(npm install \S+\.tgz)`/.exec(guide)
  const project = newFolder(t)
  await run('bash', ['-c', `${command.replace('../watchfire/', REPOSITORY)} --prefer-offline --no-audit --no-fund`], { cwd: project })
  const program =
    "import { Client } from '@watchfire/client'; import { buildFile } from '@watchfire/pages/content'; new Client('ws://localhost/socket')"
  await run('node', ['--input-type=module', '--eval', `${program}; console.log(typeof buildFile)`], { cwd: project })
})

/** A server that accepts connections from the site. */
async function startFor(t, origins = `same,${site.origin}`, settings = {}) {
  const server = await startServer(t, { settings: { 'socket.check_origin': origins, ...settings } })
  site.connectTo(addressOf(server))
  return server
}

async function visit(t, server, fragment = '') {
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`${site.origin}/${fragment}`)
  return visitor
}

const shadowOf = (visitor) => visitor.tab.locator('watch-fire').locator('[part=page]')
const statusOf = (visitor) => visitor.tab.locator('watch-fire').evaluate((element) => element.status)

/** Shares a file from the site; resolves with the visitor who shares it and its CID. */
async function shareFile(t, server, name, content) {
  const folder = await folderOf(t, { [name]: content })
  const maker = await visit(t, server)
  await drop(maker, [`${folder}/${name}`])
  const link = maker.tab.getByRole('link', { name })
  await link.waitFor({ timeout: WAIT_MS })
  return { maker, cid: (await link.getAttribute('href')).slice(1) }
}

test('a file dropped on the site is shown to those who open its link, and again by them', async (t) => {
  const server = await startFor(t)
  const { maker, cid } = await shareFile(t, server, 'greeting.txt', 'Hello <b>from</b> a tab')
  const reader = await visit(t, server, `#${cid}`)
  await shadowOf(reader).getByText('Hello <b>from</b> a tab').waitFor({ timeout: WAIT_MS })
  assert.equal(await statusOf(reader), 'shown')
  // Another element shows the page too. When it shows another page while it loads this one, and is removed, the first one stays.
  await reader.tab.locator('watch-fire').evaluate(async (element) => {
    const other = element.cloneNode(true)
    const shown = new Promise((resolve) => other.addEventListener('statuschange', () => other.status === 'shown' && resolve(other)))
    element.after(other)
    await shown
    other.setAttribute('cid', 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e')
    other.setAttribute('cid', element.getAttribute('cid'))
    other.remove()
  })
  assert.equal(await statusOf(reader), 'shown')
  // The app of the server opens the same page, and the reader alone serves it.
  await maker.tab.close()
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${cid}`)
  await visitor.waitForText('from</b> a tab')
  // A page whose element is removed is left.
  await reader.tab.locator('watch-fire').evaluate((element) => element.remove())
  await visitor.tab.close()
  const late = await visit(t, server, `#${cid}`)
  await late.tab.getByText('Nobody has this page open now.').waitFor({ timeout: WAIT_MS })
  assert.equal(await statusOf(late), 'waiting')
})

/**
 * Opens the page of an example in a tab of its own. `said` waits until the example has logged a line that contains these words, and
 * returns the line.
 */
async function runExample(visitor, title, link = '') {
  const example = EXAMPLES.find((one) => one.title === title)
  assert.ok(example, `a README has the example "${title}"`)
  const { tab, pageErrors } = await visitor.openAnotherTab()
  const lines = []
  tab.on('console', (message) => lines.push(message.text()))
  await tab.goto(`${site.origin}/${example.file}#${new URLSearchParams({ link, cid: partsOf(link).cid })}`)
  const said = (/** @type {string} */ words) =>
    waitUntil(
      () => lines.find((line) => line.includes(words)),
      () => `"${title}" logs ${words}, and not only ${JSON.stringify([...lines, ...pageErrors])}`,
      WAIT_MS,
    )
  return { tab, said, link: () => said('/p/') }
}

/** The CID and the key in a link. */
function partsOf(link) {
  const [, cid = '', key = ''] = /\/p\/(\w+)(?:#key=([\w-]+))?/.exec(link) ?? []
  return { cid, key }
}

test('each example of the READMEs and of the reference does what it says', async (t) => {
  const visitor = await visit(t, await startFor(t))
  const run = (/** @type {string} */ title, link = '') => {
    left.delete(title)
    return runExample(visitor, title, link)
  }
  const left = new Set(EXAMPLES.map(({ title }) => title))
  const sharer = await run('Share a file: ts')
  await sharer.said('1 have it open')
  const reader = await run('Open a page: ts', await sharer.link())
  await reader.said('Hello')
  await reader.said('complete 5 5')
  await sharer.said('2 have it open')
  const element = await run('@watchfire/element: ts', await sharer.link())
  await element.said('shown null 3')
  await shadowOf(element).getByText('Hello').waitFor({ timeout: WAIT_MS })
  const waiting = await run('@watchfire/element: html')
  await waiting.tab.getByText('Nobody has this page open now.').waitFor({ timeout: WAIT_MS })
  await waitUntil(async () => (await statusOf(waiting)) === 'waiting', 'the element waits for the page', WAIT_MS)

  const publisher = await run('Live pages: ts')
  const follower = await run('Read a live page: ts', await publisher.link())
  await follower.said('Match report 2 true')

  const keeper = await run('Private pages: ts')
  const secret = await keeper.link()
  const confidant = await run('Read a private page: ts', secret)
  await confidant.said('open Only for you')
  const { key } = partsOf(secret)
  const misled = await run('Read a private page: ts', secret.replace(key, key.slice(0, -1)))
  await misled.said('wrong-key')
  // The app of the server opens the same link.
  await visitor.goTo(secret)
  await visitor.waitForText('Only for you')
  await (await run('Without `Watchfire`: ts')).said('Hello')

  const caught = await run('`@watchfire/pages`: ts')
  await caught.said('bad-path')
  const built = await run('`@watchfire/pages/content`: ts')
  await built.said('bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e hello world')
  const formatted = await run('`@watchfire/pages/messages` and `@watchfire/pages/problems`: ts')
  await formatted.said('1,5 KiB')
  assert.deepEqual([...left], [], 'these examples were not run')
})

test('an element shows a private page with its key, and is locked without it', async (t) => {
  const server = await startFor(t)
  const keeper = await runExample(await visit(t, server), 'Private pages: ts')
  const { cid, key } = partsOf(await keeper.link())
  const reader = await visit(t, server, `#${cid}`)
  const element = reader.tab.locator('watch-fire')
  const isLocked = async () => (await statusOf(reader)) === 'locked'
  await waitUntil(isLocked, 'the page is locked', WAIT_MS)
  await element.evaluate((each) => each.setAttribute('key', 'x'.repeat(43)))
  await waitUntil(isLocked, 'another key does not open it', WAIT_MS)
  assert.equal(await shadowOf(reader).count(), 0)
  await element.evaluate((each, key) => each.setAttribute('key', key), key)
  await shadowOf(reader).getByText('Only for you').waitFor({ timeout: WAIT_MS })
  assert.equal(await statusOf(reader), 'shown')
})

test('a dropped text is ignored', async (t) => {
  const server = await startFor(t)
  const visitor = await visit(t, server)
  await visitor.tab.evaluate(() => {
    const dataTransfer = new DataTransfer()
    dataTransfer.setData('text/plain', 'words')
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
  })
  await visitor.tab.getByText('Drop a file anywhere here').waitFor({ timeout: WAIT_MS })
  assert.deepEqual(visitor.pageErrors, [])
})

test('HTML is shown without scripts, and a live page as it grows', async (t) => {
  const server = await startFor(t)
  const elsewhere = `${site.origin}/elsewhere`
  const links = [`<a href="${elsewhere}">HTML</a>`, `<svg><a xlink:href="${elsewhere}"><text y="1em">SVG</text></a></svg>`]
  const shadow = `<div><template shadowrootmode="open">${links[0].replace('HTML', 'Shadow')}</template></div>`
  const html = `<!doctype html><title>x</title><h1>Words</h1><script>top.pwned = 1</script><img src=x onerror="top.pwned = 1">${links.join('')}${shadow}`
  const { cid } = await shareFile(t, server, 'page.html', html)
  const reader = await visit(t, server, `#${cid}`)
  await shadowOf(reader).waitFor({ timeout: WAIT_MS })
  const page = reader.tab.frameLocator('watch-fire iframe').frameLocator('iframe')
  await page.getByText('Words').waitFor({ timeout: WAIT_MS })
  assert.equal(await reader.tab.evaluate(() => 'pwned' in globalThis), false)
  // No click leaves the page. A link that a rewrite has missed would be stopped by the policy of the document around it.
  site.requested.length = 0
  for (const link of ['HTML', 'SVG', 'Shadow']) await page.getByText(link, { exact: true }).click()
  await page.getByText('Words').waitFor({ timeout: WAIT_MS })
  await page.locator('h1').evaluate((heading, url) => heading.ownerDocument.location.assign(url), elsewhere)
  await page.getByText('Words').waitFor({ state: 'detached', timeout: WAIT_MS })
  // The element stores the blocks meanwhile, and loads its code for that.
  assert.deepEqual(
    site.requested.filter((path) => !path.startsWith('/assets/')),
    [],
  )
  // A move loads the frame again, and keeps the page.
  await reader.tab.locator('watch-fire').evaluate((element) => element.parentElement.append(element))
  await page.getByText('Words').waitFor({ timeout: WAIT_MS })
  await reader.tab.locator('watch-fire').evaluate((/** @type {any} */ element) => element.parentElement.moveBefore(element, null))
  assert.equal(await statusOf(reader), 'shown')
  await page.getByText('Words').waitFor({ timeout: WAIT_MS })

  // The same element shows a live page that grows. Its texts are texts.
  const share = new Command(t, newFolder(), 'share', ['--live', '--title', 'Harbour log', '--to', addressOf(server)], {}, 'pipe')
  const { page: liveLink } = await share.event('live')
  await reader.tab
    .locator('watch-fire')
    .evaluate((element, cid) => element.setAttribute('cid', cid), new URL(liveLink).pathname.split('/').pop())
  await shadowOf(reader).getByRole('heading', { name: 'Harbour log' }).waitFor({ timeout: WAIT_MS })
  for (const entry of ['The fog lifts', '<!doctype html><b>gull</b>']) {
    share.write(`${entry}\n`)
    await shadowOf(reader).getByText(entry).waitFor({ timeout: WAIT_MS })
  }
  const entries = await shadowOf(reader).locator('li pre').allTextContents()
  assert.deepEqual([await statusOf(reader), ...entries], ['shown', '<!doctype html><b>gull</b>', 'The fog lifts'])
})

/** Shares a film from a terminal, and opens it in the element of the site. A slow relay leaves most of it to a direct connection. */
async function readFromTerminal(t, options = []) {
  const server = await startFor(t, undefined, { 'limits.relay_bytes_per_second_per_peer': 512 << 10 })
  const { files } = await film(8 << 20)
  const arguments_ = [path.basename(files[0]), '--to', addressOf(server), '--listen', '/ip4/127.0.0.1/tcp/0', ...options]
  const share = new Command(t, path.dirname(files[0]), 'share', arguments_)
  const { page } = await share.event('shared')
  const reader = await newDirectVisitor(t, server, { webTransport: true })
  await reader.tab.addInitScript(() => {
    globalThis.violations = []
    document.addEventListener('securitypolicyviolation', ({ blockedURI }) => globalThis.violations.push(blockedURI))
  })
  const open = async () => {
    site.requested.length = 0
    await reader.goTo(`${site.origin}/#${new URL(page).pathname.split('/').pop()}`)
    await shadowOf(reader).waitFor({ timeout: WAIT_MS })
    assert.equal(await statusOf(reader), 'shown')
    return { reader, loadedDialler: site.requested.some((name) => name.includes('dialling-connections')) }
  }
  return { server, open }
}

test('the element dials a terminal that shares the page', async (t) => {
  const { open } = await readFromTerminal(t)
  const { reader, loadedDialler } = await open()
  assert.equal(loadedDialler, true)
  const sessions = await sessionsOf(reader)
  assert.equal(sessions.length, 1)
  assert(sessions[0].received > 4 << 20, `only ${sessions[0].received} bytes came over WebTransport`)
  // The site has no icon.
  assert.deepEqual(
    reader.pageErrors.filter((error) => !error.includes('favicon.ico')),
    [],
  )
})

test('a terminal calls the element whose site forbids to dial it', async (t) => {
  // The first address that the terminal offers is this one.
  const { server, open } = await readFromTerminal(t, ['--dial-address', `192.0.2.1:${(await listeningPorts(1))[0]}`])
  t.after(() => site.keepTo(''))
  const connections = `${addressOf(server)} ${addressOf(server).replace('http', 'ws')}`
  site.keepTo(`default-src 'self'; style-src 'self' 'unsafe-inline'; connect-src ${connections}`)
  const { reader } = await open()
  assert.deepEqual(await sessionsOf(reader), [])
  assert.equal(await areConnected(reader), true)
  const violations = await reader.tab.evaluate(() => globalThis.violations)
  assert.equal(violations.length, 1, `the policy forbids ${violations}`)
})

test('an element with an invalid CID or server shows its own content and names the cause', async (t) => {
  const server = await startFor(t)
  const reader = await visit(t, server, '#<img src=x onerror=globalThis.pwned=1>')
  await reader.tab.getByText('is not a CID').waitFor({ timeout: WAIT_MS })
  await reader.tab.getByText('Nobody has this page open now.').waitFor({ timeout: WAIT_MS })
  assert.equal(await statusOf(reader), 'failed')
  const problem = await reader.tab.locator('watch-fire').evaluate((element) => {
    element.setAttribute('cid', 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e')
    element.setAttribute('server', 'javascript:alert(1)')
    return element.problem
  })
  assert.equal(problem, '"javascript:alert(1)" is not the address of a server.')
  assert.equal(await reader.tab.evaluate(() => 'pwned' in globalThis), false)
})

test('an element of another origin keeps to the limits of its server, and says when the server does not answer', async (t) => {
  const server = await startFor(t, `same,${site.origin}`, { 'limits.page_bytes_max': 1 << 20 })
  const folder = await folderOf(t, { 'long.txt': 'x'.repeat(3 << 20) })
  const maker = await visit(t, server)
  await drop(maker, [`${folder}/long.txt`])
  await maker.tab.getByText('more than the 1 MiB a page may have here').waitFor({ timeout: WAIT_MS })
  // This tab believes in a larger limit.
  await maker.tab.route('**/limits', (route) => route.fulfill({ json: {}, headers: { 'access-control-allow-origin': '*' } }))
  await maker.tab.reload()
  await drop(maker, [`${folder}/long.txt`])
  const link = maker.tab.getByRole('link', { name: 'long.txt' })
  await link.waitFor({ timeout: WAIT_MS })
  const reader = await visit(t, server, await link.getAttribute('href'))
  await reader.tab.getByText('more than the 1 MiB a page may have here').waitFor({ timeout: WAIT_MS })
  assert.equal(await statusOf(reader), 'failed')
  await server.kill()
  const late = await visit(t, server, '#bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e')
  await late.tab.getByText('does not answer. It is tried again.').waitFor({ timeout: WAIT_MS })
  assert.equal(await statusOf(late), 'waiting')
})

test('a server that does not accept the site is named as the cause', async (t) => {
  const server = await startFor(t, 'same')
  const reader = await visit(t, server, '#bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e')
  const refused = () => server.stderr.includes(site.origin) || server.lines.some((line) => line.includes(site.origin))
  await waitUntil(refused, 'the server names the refused site in its log', WAIT_MS)
  await reader.tab.getByText('does not accept connections from this site.').waitFor({ timeout: WAIT_MS })
  assert.equal(await statusOf(reader), 'failed')
})

for (const moduleResolution of ['nodenext', 'bundler']) {
  test(`the types of the packages serve a strict program, with ${moduleResolution}`, () => {
    assert.equal(typeErrors(moduleResolution), '')
  })
}
