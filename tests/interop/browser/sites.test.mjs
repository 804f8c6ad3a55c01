// A folder with an index.html is shown as a site, on an origin of its own without network access.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { certify } from '../lib/certificate.mjs'
import { BY_RELAY_ONLY, launch } from '../lib/chromium.mjs'
import { newFolder } from '../lib/folders.mjs'
import { shareFolder } from '../lib/shared-folder.mjs'
import { waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { engineOfTests, skipWithout } from '../lib/engines/index.mjs'
import { startLeakDetector } from './leak-detector.mjs'
import { DNS_HOSTS, hostileSiteFiles, NAVIGATIONS, REFUSED_ON_SITE, SITE_NAVIGATIONS } from './hostile-page.mjs'
import { newVisitor, PageDriver, SITE, siteOf, startServer, WAIT_MS } from './page-driver.mjs'
import { launchRecordedBrowser, assertNothingSent, assertAppUnchanged } from './sandbox-probe.mjs'
import { picture } from './fixtures.mjs'

/** Time in which a site that tries to connect has done so. */
const ATTEMPT_MS = 20_000
const fileInAddress = async (tab) => new URLSearchParams(new URL(await tab.url()).hash.slice(1)).get('file')

const head = (title) =>
  `<!doctype html><meta charset="utf-8"><title>${title}</title><link rel="stylesheet" href="/style.css"><h1>${title}</h1>`
const SMALL_SITE = {
  'index.html': `${head('Home')}<img src="pictures/cat.png" alt="cat"><a href="docs/">Docs</a> <a href="docs">Docs without a slash</a>
    <a href="%C3%BCber/%D0%B4%D0%B0%20%26%20%23.html?a=b#end">Far</a> <a href="gone.html">Gone</a> <a href="pictures/">Pictures</a>
    <a href="https://elsewhere.example/?q">Out</a> <a href="../../../docs/index.html">Above</a>`,
  'style.css': '@import url("more.css"); h1 { color: rgb(1, 2, 3) }',
  'more.css': 'h1 { text-indent: 7px }',
  'docs/index.html': `${head('Docs')}<a href="..">Home</a> <a href="../index.html">Index</a>`,
  'pictures/cat.png': picture(32, 20),
  'pictures/<b>&.txt': 'words',
  'über/да & #.html': `${head('Far')}<p id="end">The end</p>`,
}

async function openSite(t, files, { at = '', ownProcesses = false } = {}) {
  const server = await startServer(t)
  const { link, cid } = await shareFolder(t, server, files)
  const visitor = ownProcesses ? await newVisitorWithProcesses(t, server) : await newVisitor(t, server)
  await visitor.goTo(link + at)
  return { server, visitor, link, cid }
}

/** Opens a browser in which each site has a process of its own. */
async function newVisitorWithProcesses(t, server) {
  const browser = await engineOfTests.launch({ ownProcesses: true })
  t.after(() => browser.close())
  return PageDriver.inContext(server, await browser.newContext())
}

test('a folder with an index.html is shown as a site at once, with its styles, pictures and pages', {
  skip: skipWithout('sites'),
}, async (t) => {
  const { visitor } = await openSite(t, SMALL_SITE)
  const site = siteOf(visitor.tab)
  const title = site.getByRole('heading', { name: 'Home' })
  await title.waitFor()
  await waitUntil(
    () => title.evaluate((it) => getComputedStyle(it).color === 'rgb(1, 2, 3)' && getComputedStyle(it).textIndent === '7px'),
    'its styles',
    WAIT_MS,
  )
  await waitUntil(() => site.getByAltText('cat').evaluate((img) => img.naturalWidth === 32), 'its picture', WAIT_MS)
  assert.equal(await visitor.tab.getByRole('button', { name: 'Run its scripts' }).count(), 0, 'the page has scripts')
  assert.equal(await fileInAddress(visitor.tab), null)

  await site.getByRole('link', { name: 'Docs', exact: true }).click()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  await waitUntil(async () => (await fileInAddress(visitor.tab)) === 'docs/index.html', 'the address names the file', WAIT_MS)
  await site.getByRole('link', { name: 'Home' }).click()
  await site.getByRole('heading', { name: 'Home' }).waitFor()
  await waitUntil(async () => (await fileInAddress(visitor.tab)) === 'index.html', 'the address names the file', WAIT_MS)
  await site.getByRole('link', { name: 'Docs without a slash' }).click()
  await site.getByRole('link', { name: 'Index' }).click()
  await site.getByRole('heading', { name: 'Home' }).waitFor()
  await site.getByRole('link', { name: 'Above' }).click()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  visitor.assertNoPageErrors()
})

test('names in every script, queries, fragments, folders without an index, and absent files are handled', {
  skip: skipWithout('sites'),
}, async (t) => {
  const { visitor } = await openSite(t, SMALL_SITE)
  const site = siteOf(visitor.tab)
  await site.getByRole('link', { name: 'Far' }).click()
  await site.getByText('The end').waitFor()
  await waitUntil(async () => (await fileInAddress(visitor.tab)) === 'über/да & #.html', 'the address names the file', WAIT_MS)
  const inside = await site.locator('body').evaluate(() => ({ search: location.search, hash: location.hash }))
  assert.deepEqual(inside, { search: '?a=b', hash: '#end' })
  await visitor.tab.evaluate(() => history.back())
  await site.getByRole('link', { name: 'Pictures' }).click()
  await site.getByRole('link', { name: '<b>&.txt' }).click()
  await site.getByText('words').waitFor()
  await visitor.tab.evaluate(() => history.back())
  await site.getByRole('link', { name: 'Parent folder' }).click()
  await site.getByRole('link', { name: 'Gone' }).click()
  await site.getByText('This page has no file “gone.html”.').waitFor()
  await site.getByRole('link', { name: 'Go to the start page' }).click()
  await site.getByRole('link', { name: 'Out', exact: true }).click()
  await visitor.waitForText('https://elsewhere.example/?q')
  await site.getByRole('heading', { name: 'Home' }).waitFor()
})

test('back and forward step through the pages of a site, and a link opens the page that it names', {
  skip: skipWithout('sites'),
}, async (t) => {
  const { visitor, link } = await openSite(t, SMALL_SITE)
  const site = siteOf(visitor.tab)
  await site.getByRole('link', { name: 'Docs', exact: true }).click()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  await waitUntil(async () => (await fileInAddress(visitor.tab)) === 'docs/index.html', 'the address names the file', WAIT_MS)
  await visitor.tab.evaluate(() => history.back())
  await site.getByRole('heading', { name: 'Home' }).waitFor()
  await visitor.tab.evaluate(() => history.forward())
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  await waitUntil(async () => (await fileInAddress(visitor.tab)) === 'docs/index.html', 'the address names the file', WAIT_MS)
  // Leaves the site through the file list, and returns.
  await visitor.tab.getByRole('link', { name: 'pictures/cat.png' }).click()
  await visitor.waitForPicture('pictures/cat.png')
  await visitor.tab.evaluate(() => history.back())
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  await visitor.tab.getByRole('link', { name: 'über/да & #.html' }).click()
  await site.getByRole('heading', { name: 'Far' }).waitFor()
  await waitUntil(async () => (await fileInAddress(visitor.tab)) === 'über/да & #.html', 'the address names the file', WAIT_MS)
  await visitor.tab.evaluate(() => history.back())
  await site.getByRole('heading', { name: 'Docs' }).waitFor()

  await visitor.goTo('/')
  await visitor.goTo(`${link}#file=docs%2Findex.html`)
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
})

test('the scripts of a site run after one click, and read its files', { skip: skipWithout('sites') }, async (t) => {
  const files = {
    'index.html': `${head('Home')}<p id="output">nothing</p><script type="module">
      import { greet } from './lib/greet.js'
      const { name } = await (await fetch('data.json')).json()
      const part = await fetch('data.json', { headers: { range: 'bytes=2-5' } })
      const gone = await fetch('gone.json')
      output.textContent = [greet(name), part.status, await part.text(), gone.status].join(' ')
    </script>`,
    'style.css': '',
    'lib/greet.js': 'export const greet = (name) => `hello ${name}`',
    'data.json': '{"name":"you"}',
  }
  const { visitor } = await openSite(t, files)
  const output = siteOf(visitor.tab).locator('#output')
  assert.equal(await output.textContent(), 'nothing')
  await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
  await output.getByText('hello you 206 name 404').waitFor()
  await visitor.tab.getByRole('button', { name: 'Stop its scripts' }).click()
  await output.getByText('nothing').waitFor()
})

test('site origins work below a separate domain, over TLS', { skip: skipWithout('devtools') }, async (t) => {
  const folder = newFolder(t)
  const { cert, key } = certify(folder, ['localhost', 'fire.example.com', '*.pages.example.org'])
  const server = await startServer(t, {
    settings: {
      'tls.cert': cert,
      'tls.key': key,
      'sites.domain': 'pages.example.org',
      'sites.app': 'https://fire.example.com',
      // The names lead to loopback.
      'socket.check_origin': 'same,https://fire.example.com',
    },
  })
  const script = '<p id="output">nothing</p><script>output.textContent = location.ancestorOrigins[0]</script>'
  const files = { ...SMALL_SITE, 'index.html': SMALL_SITE['index.html'] + script }
  const { cid } = await shareFolder(t, server, files, cert)

  // The test's own resolver and certificate authority point the names at the server.
  const names = ['fire.example.com', '*.pages.example.org'].map((name) => `MAP ${name} 127.0.0.1:${server.port}`)
  const browser = await launch([...BY_RELAY_ONLY, `--host-resolver-rules=${names}`, '--ignore-certificate-errors', '--no-proxy-server'])
  t.after(() => browser.close())
  const visitor = await PageDriver.inContext(server, await browser.newContext())
  await visitor.goTo(`https://fire.example.com/p/${cid}`)
  const site = siteOf(visitor.tab)
  const title = site.getByRole('heading', { name: 'Home' })
  await title.waitFor()
  await waitUntil(() => title.evaluate((it) => getComputedStyle(it).color === 'rgb(1, 2, 3)'), 'its styles', WAIT_MS)
  await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
  await site.locator('#output').getByText(`https://${cid}.pages.example.org`).waitFor()
  await site.getByRole('link', { name: 'Docs', exact: true }).click()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  visitor.assertNoPageErrors()

  const answer = await visitor.tab.goto(`https://${cid}.pages.example.org/`)
  assert.equal(answer.status(), 404, 'a site opened without the app')
})

test('without site origins, a page of a site is shown sandboxed, with the file list below', async (t) => {
  const { visitor, link } = await openSite(t, SMALL_SITE)
  const byAddress = link.replace('localhost', '127.0.0.1')
  const unanswered = 'sites' in engineOfTests.lacks ? [[link, 'the site could not be started: it did not answer']] : []
  for (const [address, why] of [[byAddress, 'this server has no domain for sites'], ...unanswered]) {
    await visitor.goTo(address)
    await visitor.waitForText(why)
    const still = visitor.tab.frameLocator('iframe[title="The page, without its scripts"]').frameLocator('iframe')
    await still.getByRole('heading', { name: 'Home' }).waitFor()
    await visitor.tab.getByRole('link', { name: 'docs/index.html' }).click()
    await still.getByRole('heading', { name: 'Docs' }).waitFor()
  }
})

test('data that a site stores is gone with the tab, and no other site sees it', {
  skip: skipWithout('sites', 'credentialless'),
}, async (t) => {
  const keeper = (title) => ({
    'style.css': '',
    'index.html': `${head(title)}<p id="output"></p><script type="module">
      const seen = [localStorage.length, document.cookie, (await caches.keys()).length, (await indexedDB.databases()).length]
      localStorage.setItem('a', '1'); document.cookie = 'a=1; max-age=999'; await caches.open('a')
      await new Promise((done) => { indexedDB.open('a').onsuccess = done })
      output.textContent = 'saw ' + JSON.stringify(seen)
    </script>`,
  })
  const { server, visitor, link } = await openSite(t, keeper('One'))
  const other = await shareFolder(t, server, keeper('Other'))
  const visit = async (at) => {
    await visitor.goTo(at)
    await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
    const output = siteOf(visitor.tab).locator('#output')
    await output.getByText('saw').waitFor()
    return output.textContent()
  }
  for (const at of [link, other.link, link]) {
    assert.equal(await visit(at), 'saw [0,"",0,0]')
    await visitor.goTo('/')
  }
})

test('a site in an endless loop does not block the app', { skip: skipWithout('sites') }, async (t) => {
  const files = { 'style.css': '', 'index.html': `${head('Spin')}<script>addEventListener('load', () => { for (;;); })</script>` }
  const { visitor } = await openSite(t, files, { ownProcesses: true })
  await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
  await siteOf(visitor.tab)
    .locator('body')
    .waitFor({ state: 'attached', timeout: 2000 })
    .catch(() => {})
  // An app in the process of the site would have no turn at all.
  const turns = visitor.tab.evaluate(async () => {
    for (let turn = 0; turn < 100; turn++) await new Promise((next) => setTimeout(next, 10))
  })
  await withTimeout(turns, 'the app has a hundred turns while the site loops', WAIT_MS)
  await visitor.tab.getByRole('button', { name: 'Stop its scripts' }).click()
})

for (const scripts of [false, true]) {
  test(`a hostile site leaks nothing ${scripts ? 'while its scripts run' : 'while its scripts do not run'}`, {
    skip: skipWithout('events'),
  }, async (t) => {
    const leakDetector = await startLeakDetector(t)
    const server = await startServer(t)
    const { link } = await shareFolder(t, server, hostileSiteFiles(leakDetector))
    const suspect = await launchRecordedBrowser(t)
    const visitor = await PageDriver.inContext(server, suspect.context)
    for (const name of ['index', ...NAVIGATIONS, ...SITE_NAVIGATIONS]) {
      await visitor.goTo('/')
      await visitor.goTo(`${link}#file=${name}.html`)
      const site = siteOf(visitor.tab)
      if (scripts) await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
      if (scripts && name === 'index') {
        const progress = site.locator('#progress')
        await progress.getByText(/^tried/).waitFor()
        const tried = JSON.parse((await progress.textContent()).replace('tried ', ''))
        for (const what of REFUSED_ON_SITE) assert.match(tried[what] ?? 'not tried', /^(?:refused: |error$|null$)/, what)
      } else {
        await visitor.tab.frameLocator(SITE).frameLocator('iframe').locator('body').waitFor({ state: 'attached' })
      }
      if (!scripts) {
        await site.locator('body').waitFor({ state: 'attached' })
        for (const bait of ['#link', '#blank', '#pinging', '#send']) {
          const found = site.locator(bait)
          if ((await found.count()) > 0) await found.click()
        }
        if (name === 'index') assert.equal(await site.locator('#progress').textContent(), 'trying', 'a script ran')
      }
      await assertAppUnchanged(visitor, suspect, name)
    }
    // A site that unregisters its worker may still request its own host, which must not answer.
    const refused = () => server.metric('watchfire_refusals_total', 'reason="site"')
    if (scripts) await waitUntil(async () => (await refused()) > 0, 'it requests its own host', WAIT_MS)
    assert.equal(await refused(), scripts ? 1 : 0, 'unexpected requests to its own host')
    await assertNothingSent(t, leakDetector, suspect, DNS_HOSTS)
  })
}

/**
 * Ignores one error of Playwright until the test ends. Playwright throws it, beyond any caller's reach, when a late event
 * comes from a frame whose process has ended.
 */
function ignoreDetachedFrames(t) {
  const listeners = process.rawListeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', (/** @type {any} */ reason, promise) => {
    if (reason?.message === 'Frame has been detached.') return
    for (const listener of listeners) listener.call(process, reason, promise)
  })
  t.after(() => {
    process.removeAllListeners('unhandledRejection')
    for (const listener of listeners) process.on('unhandledRejection', /** @type {() => void} */ (listener))
  })
}

test('a hostile site makes no WebRTC call', { skip: skipWithout('devtools') }, async (t) => {
  ignoreDetachedFrames(t)
  const leakDetector = await startLeakDetector(t)
  const server = await startServer(t)
  const { link } = await shareFolder(t, server, hostileSiteFiles(leakDetector))
  const suspect = await launchRecordedBrowser(t)
  const visitor = await PageDriver.inContext(server, suspect.context)
  await visitor.goTo(`${link}#file=calls.html`)
  // Chromium ends the process of a site that tries; the app has a process of its own.
  // One of the two waits never resolves, and ends with the browser.
  const ended = visitor.tab.waitForEvent('crash', { timeout: ATTEMPT_MS })
  const called = siteOf(visitor.tab).getByText('called').waitFor({ timeout: ATTEMPT_MS })
  const outcome = Promise.any([ended, called])
  await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
  await outcome
  assert.equal(await server.metric('watchfire_channels_clients', 'transport="websocket"'), 2, 'the app lost its connections')
  await assertNothingSent(t, leakDetector, suspect, DNS_HOSTS)
})

test('only the app can embed a site, and a site cannot be opened by itself', { skip: skipWithout('sites') }, async (t) => {
  const { server, visitor, cid } = await openSite(t, SMALL_SITE)
  await siteOf(visitor.tab).getByRole('heading', { name: 'Home' }).waitFor()
  const stranger = await newVisitor(t, server)
  await stranger.tab.goto(`http://${cid}.localhost:${server.port}/.watchfire/shell`)
  await stranger.waitForText('This can be shown only inside the page it belongs to.')
  const alone = await stranger.tab.goto(`http://${cid}.localhost:${server.port}/index.html`)
  assert.equal(alone.status(), 404)
})
