// An untrusted page cannot reach the network, the app around it, or the browser's storage.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'

import { startLeakDetector } from './leak-detector.mjs'
import {
  DATAGRAM_CHANNELS,
  DNS_HOSTS,
  hostileFiles,
  hostileMarkdown,
  hostileSvg,
  NAVIGATIONS,
  REFUSED,
  REQUEST_CHANNELS,
} from './hostile-page.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { skipWithout } from '../lib/engines/index.mjs'
import { blocksOf } from './bitswap-messages.mjs'
import { newVisitor, WAIT_MS, PageDriver, startServer } from './page-driver.mjs'
import { joinPage, LimitedHolder } from './raw-peer.mjs'
import { launchRecordedBrowser, assertNothingSent, assertAppUnchanged, assertWarning } from './sandbox-probe.mjs'
import { file, wav } from './fixtures.mjs'
import { closeServer, listen } from '../lib/listen.mjs'

const SHELL = 'iframe[title="The page, with its scripts"]'
/** Time for an element to load what it must not load. */
const ANSWER_MS = 3000
const STILL_SHELL = 'iframe[title="The page, without its scripts"]'

test('without a sandbox, every channel reaches the leak detector', { skip: skipWithout('netlog') }, async (t) => {
  const leakDetector = await startLeakDetector(t)
  const unsandboxed = await serveUnsandboxed(t, hostileFiles(leakDetector))
  const suspect = await launchRecordedBrowser(t)
  const tab = await suspect.context.newPage()
  await tab.goto(`${unsandboxed}/index.html`)
  await tab
    .locator('#progress')
    .getByText(/^tried/)
    .waitFor()
  for (const way of NAVIGATIONS) {
    const other = await suspect.context.newPage()
    // The navigation that the page starts may cut this one short.
    await other.goto(`${unsandboxed}/${way}.html`, { waitUntil: 'commit' })
    await leakDetector.called(`/leak/${way}`)
  }
  for (const channel of REQUEST_CHANNELS) await leakDetector.called(`/leak/${channel}`)
  for (const channel of DATAGRAM_CHANNELS) assert(leakDetector.datagrams.includes(channel), `no datagram of ${channel} arrived`)
  const log = await suspect.closeAndReadLog()
  for (const host of DNS_HOSTS) assert(log.includes(host), `the browser did not look up ${host}`)
})

test('a hostile page leaks nothing while its scripts do not run', async (t) => {
  const leakDetector = await startLeakDetector(t)
  const { visitor, suspect, link } = await openHostile(t, hostileFiles(leakDetector))
  for (const name of ['index', ...NAVIGATIONS]) {
    await visitor.goTo(`${link}#file=${name}.html`)
    const page = visitor.tab.frameLocator(STILL_SHELL).frameLocator('iframe')
    await page.locator('body').waitFor({ state: 'attached' })
    for (const bait of ['#link', '#blank', '#pinging', '#send']) {
      const found = page.locator(bait)
      if ((await found.count()) > 0) await found.click()
    }
    if (name === 'index') assert.equal(await page.locator('#progress').textContent(), 'trying', 'a script ran')
    await assertAppUnchanged(visitor, suspect, name)
  }
  await assertNothingSent(t, leakDetector, suspect, DNS_HOSTS)
})

test('a hostile page leaks nothing while its scripts run', async (t) => {
  const leakDetector = await startLeakDetector(t)
  const { visitor, suspect, link } = await openHostile(t, hostileFiles(leakDetector))
  for (const name of ['index', ...NAVIGATIONS]) {
    await visitor.goTo(`${link}#file=${name}.html`)
    await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
    if (name === 'index') assertRefused(await attemptResults(visitor))
    else await visitor.tab.frameLocator(SHELL).locator('body').waitFor({ state: 'attached' })
    await assertAppUnchanged(visitor, suspect, name)
  }
  const opened = await assertWarning(visitor)
  await assertNothingSent(t, leakDetector, suspect, DNS_HOSTS, { opened })
})

test('a hostile page of a single file leaks nothing', async (t) => {
  const leakDetector = await startLeakDetector(t)
  const { 'index.html': everything } = hostileFiles(leakDetector)
  const { visitor, suspect, link } = await openHostile(t, { 'hostile.html': everything })
  await visitor.goTo(link)
  await visitor.tab.frameLocator(STILL_SHELL).frameLocator('iframe').locator('#progress').waitFor()
  await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
  assertRefused(await attemptResults(visitor))
  await assertAppUnchanged(visitor, suspect, 'hostile.html')
  const opened = await assertWarning(visitor)
  await assertNothingSent(t, leakDetector, suspect, DNS_HOSTS, { opened })
})

test('hostile Markdown and a hostile SVG, which the app itself renders, leak nothing', async (t) => {
  const leakDetector = await startLeakDetector(t)
  const files = { 'index.md': hostileMarkdown(leakDetector), 'picture.svg': hostileSvg(leakDetector) }
  const { visitor, suspect, link } = await openHostile(t, files)
  await visitor.goTo(link)
  await visitor.waitForText('The end of it')
  for (const bait of await visitor.tab.locator('.prose a[href^="javascript"], .prose form, .prose iframe, .prose script').all()) {
    assert.fail(`the page kept ${await bait.evaluate((element) => element.outerHTML)}`)
  }
  await assertAppUnchanged(visitor, suspect, 'index.md')
  await visitor.goTo(`${link}#file=picture.svg`)
  await visitor.waitForPicture('picture.svg')
  await assertAppUnchanged(visitor, suspect, 'picture.svg')
  await assertNothingSent(t, leakDetector, suspect, DNS_HOSTS)
})

test('a page is shown in a tab that paints late', { skip: skipWithout('init-scripts') }, async (t) => {
  const person = await newVisitor(t, await startServer(t))
  // Effects that wait for the next paint run after the frame has announced itself.
  await person.tab.addInitScript(() => {
    const { setTimeout } = window
    window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 2000)
    const late = (callback, millis = 0, ...rest) => setTimeout(callback, millis > 0 && millis < 100 ? 2000 : millis, ...rest)
    Object.assign(window, { setTimeout: late })
  })
  await person.sharePage({ files: [file('party.html', '<h1>A party</h1>')] })
  const page = person.tab.frameLocator(STILL_SHELL).frameLocator('iframe')
  await page.getByRole('heading', { name: 'A party' }).waitFor({ timeout: WAIT_MS })
  person.assertNoPageErrors()
})

test('the sandbox frame has an opaque origin, however it is opened', async (t) => {
  const server = await startServer(t)
  const person = await newVisitor(t, server)
  await person.goTo('/')
  await person.goTo('/frame')
  assert.equal(await person.tab.evaluate(() => self.origin), 'null')
  const worker = await fetch(server.http('/assets/anything.js'), { headers: { 'service-worker': 'script' } })
  assert.equal(worker.status, 404)
  const own = await fetch(server.http('/worker.js'), { headers: { 'service-worker': 'script' } })
  assert.equal(own.status, 200)
  assert.equal(own.headers.get('cache-control'), 'no-cache')
})

test('untrusted bytes that are streamed go into a media player and nowhere else', async (t) => {
  const server = await startServer(t)
  // Audio by its first bytes, a page with scripts by the rest.
  const { root, blocks } = blocksOf(audioWithMarkup(40 << 20))
  await joinPage(t, server, root, 'all', new LimitedHolder(blocks, 8).answer)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=tide.wav`)
  const audio = visitor.tab.locator('audio[src^="/stream/"]')
  await waitUntil(() => audio.evaluate(({ readyState }) => readyState >= 2), 'it plays', WAIT_MS)
  const address = await audio.getAttribute('src')

  const tried = await visitor.tab.evaluate(
    async ({ address, ANSWER_MS }) => {
      const outcome = (element, part) =>
        new Promise((resolve) => {
          element.onload = () => resolve('loaded')
          element.onerror = () => resolve('refused')
          // Not every engine has an event for every refusal.
          setTimeout(() => resolve('refused'), ANSWER_MS)
          Object.assign(element, part)
          document.body.append(element)
        })
      const fetched = await fetch(address)
      const frame = document.createElement('iframe')
      await outcome(frame, { src: address })
      return {
        fetch: fetched.status,
        fetched: (await fetched.arrayBuffer()).byteLength,
        script: await outcome(document.createElement('script'), { src: address }),
        module: await outcome(document.createElement('script'), { src: address, type: 'module' }),
        style: await outcome(document.createElement('link'), { href: address, rel: 'stylesheet' }),
        picture: await outcome(document.createElement('img'), { src: address }),
        worker: await new Promise((resolve) => {
          const worker = new Worker(address)
          worker.onmessage = () => resolve('loaded')
          worker.onerror = () => resolve('refused')
          setTimeout(() => resolve('refused'), ANSWER_MS)
        }),
        serviceWorker: await navigator.serviceWorker.register(address).then(
          () => 'registered',
          () => 'refused',
        ),
        frame: (() => {
          try {
            return frame.contentDocument?.body?.textContent ?? 'sealed'
          } catch {
            return 'sealed'
          }
        })(),
      }
    },
    { address, ANSWER_MS },
  )
  const refused = 'refused'
  assert.deepEqual(tried, {
    fetch: 403,
    fetched: 50,
    script: refused,
    module: refused,
    style: refused,
    picture: refused,
    worker: refused,
    serviceWorker: refused,
    frame: 'sealed',
  })
  for (const way of [address, address.replace('/stream/', '/save/')]) {
    // In a tab of its own: WebKit asks the server instead of the worker, if the document before was sandboxed.
    const other = await visitor.openAnotherTab()
    const answer = await other.tab.goto(new URL(way, await visitor.tab.url()).href)
    // Classic WebDriver reports no response.
    if (answer !== undefined && answer !== null) assert.equal(answer.status(), 403)
    assert.match(await other.tab.evaluate(() => document.body.textContent), /^This can be (opened only by the page|saved only from)/)
    assert.equal(await other.tab.evaluate(() => self.origin), 'null')
    assert.equal(await other.tab.evaluate(() => 'pwned' in window), false)
  }
  assert.equal(await visitor.tab.evaluate(() => 'pwned' in window), false)
  // Another tab of the same site cannot read it either, although it may play its own files.
  const other = await visitor.openAnotherTab()
  await other.goTo('/')
  const played = await other.tab.evaluate(async (address) => {
    const audio = document.createElement('audio')
    audio.src = address
    return new Promise((resolve) => {
      audio.onerror = () => resolve('refused')
      audio.onloadedmetadata = () => resolve('played')
    })
  }, address)
  assert.equal(played, 'refused')
})

/** Audio whose samples are markup. */
function audioWithMarkup(bytes) {
  const markup = Buffer.from('<!doctype html><script>window.pwned = 1; top.pwned = 1</script>window.pwned = 1;'.padEnd(84, ' '))
  // Each block differs, so that all have to be transferred.
  const samples = Buffer.alloc(bytes - 44, markup)
  for (let at = 0; at < samples.length; at += 1 << 16) samples.writeUInt32LE(at, at)
  return wav(samples, { rate: 48_000, channels: 1, bits: 16 })
}

/** One visitor shares the files; another, in a recorded browser, is ready to open the link. */
async function openHostile(t, files) {
  const server = await startServer(t)
  const sharer = await newVisitor(t, server)
  const shared = Object.entries(files).map(([name, content]) => file(name, content))
  const link = await sharer.sharePage({ files: shared })
  const suspect = await launchRecordedBrowser(t)
  const visitor = await PageDriver.inContext(server, suspect.context)
  // Under this host name the server has no site origins, and each document is sandboxed by itself.
  return { visitor, suspect, link: link.replace('localhost', '127.0.0.1') }
}

/** The result of each attempt of the running page, by name. */
async function attemptResults(visitor) {
  const progress = visitor.tab.frameLocator(SHELL).locator('#progress')
  await progress.getByText(/^tried/).waitFor()
  return JSON.parse((await progress.textContent()).replace('tried ', ''))
}

function assertRefused(tried) {
  for (const what of REFUSED) assert.match(tried[what] ?? 'not tried', /^refused: /, what)
}

/** The same files from a server without a sandbox. */
async function serveUnsandboxed(t, files) {
  const server = createServer((request, response) => {
    const content = files[request.url.slice(1)]
    response.writeHead(content === undefined ? 404 : 200, { 'content-type': 'text/html' })
    response.end(content)
  })
  const port = await listen(server)
  t.after(() => closeServer(server))
  return `http://localhost:${port}`
}
