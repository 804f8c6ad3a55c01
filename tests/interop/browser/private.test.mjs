// Private pages, as people see them with the right key, a wrong key, and no key.

import assert from 'node:assert/strict'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'

import { Command } from '../lib/command-line.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { skipWithout } from '../lib/engines/index.mjs'
import { newFolder } from '../lib/folders.mjs'
import { skipInShortRun } from '../lib/whole.mjs'
import { makeWebm } from './webm.mjs'
import { addressOf, cidOf, newVisitor, siteOf, startServer, WAIT_MS, newVisitors } from './page-driver.mjs'
import { file, generated, picture } from './fixtures.mjs'
import { seek, startPlaying } from './playback.mjs'

const MIB = 1 << 20
const TRANSFER_MS = 90_000
const SECRET = 'the words that nobody else may read'

const folder = newFolder()

const withFragment = (link, fragment) => `${link.split('#')[0]}${fragment}`
const keyOf = (link) => new URLSearchParams(new URL(link).hash.slice(1)).get('key')

// `web/app/src/ui/route.test.ts` has many more fragments; these show what the page makes of each kind.
test('a fragment without a key, or with a wrong one, shows an error and does no harm', async (t) => {
  const server = await startServer(t)
  const [maker, visitor] = await newVisitors(t, server, 2)
  const link = await maker.sharePrivately({ text: SECRET })
  const key = keyOf(link)
  const open = async (fragment, words) => {
    await visitor.goTo('/')
    await visitor.goTo(withFragment(link, fragment))
    await visitor.waitForText(words)
  }
  await open('#key=<script>globalThis.pwned=1</script>', 'The key in this link does not open this page.')
  assert.equal(await visitor.tab.getByText(SECRET).count(), 0)
  await open(`?key=${key}#filename=${'x'.repeat(9000)}`, 'This page is private, and this link has no key')
  assert.equal(await visitor.tab.getByText(SECRET).count(), 0)
  await open(`#key=${key}&file=..%2F..%2Fx&filename=%3Cimg%20src%3Dx%20onerror%3DglobalThis.pwned%3D1%3E`, SECRET)
  assert.equal(await visitor.tab.evaluate(() => 'pwned' in globalThis), false)

  // A public page behind a link with a key is not presented as private.
  const publicLink = await (await newVisitor(t, server)).sharePage({ text: 'A public page.' })
  await visitor.goTo(withFragment(publicLink, `#key=${key}`))
  await visitor.waitForText('This page is not private, although its link has a key')
  assert.equal(await visitor.tab.getByText('A public page.').count(), 0)
  for (const person of [maker, visitor]) person.assertNoPageErrors()
})

test('a private video plays while it loads, and seeks to parts that are not loaded', {
  skip: skipInShortRun,
}, async (t) => {
  const [maker, visitor] = await newVisitors(t, await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': MIB } }), 2)
  const film = await makeWebm(maker, { seconds: 30, bytesPerSecond: 600_000 })
  const shared = path.join(folder, 'film.webm')
  await writeFile(shared, film)
  const link = await maker.sharePrivately({ files: [shared] })
  await visitor.goTo(link)
  const video = visitor.tab.locator('video[src^="/stream/"]')
  await video.evaluate(startPlaying)
  await video.evaluate(seek, 25)
  await visitor.waitForText('It plays while the rest loads.')
  const loaded = await visitor.tab.locator('progress').evaluate(({ value, max }) => value / max)
  t.diagnostic(`it played at 0 and at 25 s with ${(100 * loaded).toFixed()} % loaded`)
  assert(loaded < 1, 'the whole page was loaded')

  const { duration, seekable } = await video.evaluate(({ duration, seekable }) => ({ duration, seekable: seekable.end(0) }))
  assert(Math.abs(duration - 30) < 1 && seekable > 29, `${duration} ${seekable}`)
  await visitor.waitUntilComplete(TRANSFER_MS)
  assert.deepEqual(await readFile(await visitor.saveFile('film.webm')), film)
  for (const person of [maker, visitor]) person.assertNoPageErrors()
})

test('one file of a private folder arrives before the rest, and the list shows the others', async (t) => {
  const [maker, visitor] = await newVisitors(t, await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': MIB } }), 2)
  const large = path.join(folder, 'large.bin')
  await writeFile(large, generated(40 * MIB))
  const film = await makeWebm(maker, { seconds: 6, bytesPerSecond: 300_000 })
  const link = await maker.sharePrivately({ files: [large, await onDisk('z-film.webm', film)] })
  // The video is behind 40 MiB that arrive at 1 MiB per second.
  await visitor.goTo(`${link.replace(/&.*$/, '')}&file=z-film.webm`)
  const began = performance.now()
  await visitor.tab.locator('video').evaluate(startPlaying)
  t.diagnostic(`it plays after ${Math.round(performance.now() - began)} ms`)
  const loaded = await visitor.tab.locator('progress').evaluate(({ value, max }) => value / max)
  assert(loaded < 0.9, `${loaded} of the page was loaded`)
  for (const person of [maker, visitor]) person.assertNoPageErrors()
})

test('the file that a link names is shown first, and the rest of the page follows', async (t) => {
  const [maker, visitor] = await newVisitors(t, await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': MIB } }), 2)
  const files = [await onDisk('a-large.bin', generated(16 * MIB)), await onDisk('z-words.txt', `Only these. ${'word '.repeat(400_000)}`)]
  const places = [await maker.sharePrivately({ files }), await (await maker.openAnotherTab()).sharePage({ files })]
  for (const link of places) {
    // The text is behind 16 MiB that arrive at 1 MiB per second.
    const address = new URL(link)
    const key = keyOf(link)
    address.hash = key === null ? 'file=z-words.txt' : `key=${key}&file=z-words.txt`
    await visitor.goTo(address.href)
    await visitor.waitForText('Only these.')
    const loaded = await visitor.tab.locator('progress').evaluate(({ value, max }) => value / max)
    t.diagnostic(`${key === null ? 'public' : 'private'}: it is shown with ${(100 * loaded).toFixed()} % loaded`)
    assert(loaded < 0.6, `${loaded} of the page was loaded`)
  }
  // A viewer of one file still keeps the whole page available. Without the limit that takes a moment.
  const [sharer, reader] = await newVisitors(t, await startServer(t), 2)
  await reader.goTo(`${await sharer.sharePage({ files })}#file=z-words.txt`)
  await reader.waitForText('Only these.')
  await reader.waitForStatus('2 people have this page', TRANSFER_MS)
  for (const person of [maker, visitor, sharer, reader]) person.assertNoPageErrors()
})

test('a wrong key is reported with the first block, and the page still loads to be shared', { skip: skipInShortRun }, async (t) => {
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': MIB } })
  const [maker, visitor, reader] = await newVisitors(t, server, 3)
  const other = await maker.sharePrivately({ text: 'Another page' })
  const content = generated(12 * MIB)
  const link = await maker.sharePrivately({ files: [await onDisk('sealed.bin', content)] })
  await visitor.goTo(withFragment(link, `#key=${keyOf(other)}`))
  const began = performance.now()
  await visitor.waitForText('The key in this link does not open this page.')
  const ms = Math.round(performance.now() - began)
  const loaded = await visitor.tab.locator('progress').evaluate(({ value, max }) => value / max)
  t.diagnostic(`the error appears after ${ms} ms, with ${(100 * loaded).toFixed()} % loaded`)
  // A few blocks may have been in transit before the one that shows the error.
  assert(loaded < 0.5, `${loaded} of the page was loaded`)
  await visitor.waitForStatus('2 people have this page', TRANSFER_MS)
  await visitor.waitForText('The key in this link does not open this page.')
  await maker.killBrowser()

  // A person who cannot read the page still shares it with those who can.
  await reader.goTo(link)
  await reader.waitUntilComplete(TRANSFER_MS)
  assert.deepEqual(await readFile(await reader.saveFile('sealed.bin')), content)
  for (const person of [visitor, reader]) person.assertNoPageErrors()
})

test('a private folder is shown as a site on an origin of its own, which never sees the key', {
  skip: skipWithout('events'),
}, async (t) => {
  const server = await startServer(t)
  const { link, key } = await shareFromCommandLine(t, server, {
    'index.html': `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/style.css"><h1>Home</h1>
      <img src="pictures/cat.png" alt="cat"><a href="docs/">Docs</a><p id="output">nothing</p>
      <script type="module">
        let part
        // Firefox read only some of the parts that a worker had cut out.
        for (let n = 0; n < 10; n++) part = await fetch('data.bin', { headers: { range: 'bytes=1048570-1048585' } })
        const bytes = [...new Uint8Array(await part.arrayBuffer())].join()
        const seen = [location.href, document.referrer, document.baseURI, ...performance.getEntries().map(({ name }) => name)].join(' ')
        output.textContent = JSON.stringify({ status: part.status, range: part.headers.get('content-range'), bytes, seen })
      </script>`,
    'style.css': 'h1 { color: rgb(1, 2, 3) }',
    'docs/index.html': '<!doctype html><h1>Docs</h1><a href="..">Home</a>',
    'pictures/cat.png': picture(32, 20),
    'data.bin': generated(3 * MIB),
  })
  const visitor = await newVisitor(t, server)
  await visitor.goTo(link)
  const site = siteOf(visitor.tab)
  const title = site.getByRole('heading', { name: 'Home' })
  await title.waitFor()
  await waitUntil(() => title.evaluate((it) => getComputedStyle(it).color === 'rgb(1, 2, 3)'), 'its styles', WAIT_MS)
  await waitUntil(() => site.getByAltText('cat').evaluate((img) => img.naturalWidth === 32), 'its picture', WAIT_MS)
  await site.getByRole('link', { name: 'Docs' }).click()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  await waitUntil(async () => new URL(await visitor.tab.url()).hash.includes('file=docs'), 'the address names the file', WAIT_MS)
  assert.equal(keyOf(await visitor.tab.url()), key, 'the address lost the key')
  await site.getByRole('link', { name: 'Home' }).click()
  await title.waitFor()
  await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
  const output = site.locator('#output')
  await output.getByText('bytes 1048570').waitFor()
  const report = JSON.parse(await output.textContent())
  assert.equal(report.status, 206)
  assert.equal(report.range, `bytes 1048570-1048585/${3 * MIB}`)
  assert.equal(report.bytes, [...generated(3 * MIB).subarray(1048570, 1048586)].join())
  for (const frame of visitor.tab.frames().slice(1)) assert(!frame.url().includes(key), 'a frame has the key in its URL')
  assert(!report.seen.includes(key), report.seen)
  // A reload at a page of the site opens it again, with the key in the address.
  await site.getByRole('link', { name: 'Docs' }).click()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  await waitUntil(async () => new URL(await visitor.tab.url()).hash.includes('file=docs'), 'the address names the file', WAIT_MS)
  await visitor.tab.reload()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  visitor.assertNoPageErrors()
})

test('neither the server nor its log sees the key', { skip: skipWithout('events') }, async (t) => {
  const server = await startServer(t)
  const maker = await newVisitor(t, server)
  const sent = []
  maker.tab.context().on('request', (request) => sent.push(request.url(), JSON.stringify(request.headers()), request.postData() ?? ''))
  maker.tab.on('websocket', (socket) => {
    sent.push(socket.url())
    socket.on('framesent', ({ payload }) => sent.push(typeof payload === 'string' ? payload : payload.toString('latin1')))
  })
  const link = await maker.sharePrivately({ text: SECRET, files: [file('quiet-name.bin', generated(MIB))] })
  const reader = await newVisitor(t, server)
  await reader.goTo(link)
  await reader.waitForText('quiet-name.bin')
  for (const secret of [keyOf(link), SECRET, 'quiet-name']) {
    assert(!sent.some((text) => text.includes(secret)), `${secret} was sent`)
    assert(!`${server.lines.join()} ${server.stderr}`.includes(secret), `${secret} is in the log`)
  }
  assert(sent.length > 5 && cidOf(link).length > 50)
})

/** Shares the files as a private page from the command line. */
async function shareFromCommandLine(t, server, files) {
  const at = newFolder()
  for (const [name, content] of Object.entries(files)) {
    const to = path.join(at, 'site', name)
    await mkdir(path.dirname(to), { recursive: true })
    await writeFile(to, content)
  }
  const share = new Command(t, at, 'share', ['site', '--private', '--to', addressOf(server), '--listen', '/ip4/127.0.0.1/tcp/0'])
  const { page } = await share.event('shared')
  return { link: page, key: keyOf(page) }
}

async function onDisk(name, content) {
  const to = path.join(folder, name)
  await writeFile(to, content)
  return to
}
