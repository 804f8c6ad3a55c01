// Pages shared between the command line and browsers.

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'

import { WebSocket } from 'ws'

import { newVisitor, addressOf, cidOf, startServer } from '../browser/page-driver.mjs'
import { blocksOf } from '../browser/bitswap-messages.mjs'
import { honestHolder, joinPage, lyingHolder, silentHolder } from '../browser/raw-peer.mjs'
import { generated } from '../browser/fixtures.mjs'
import { certify } from '../lib/certificate.mjs'
import { launch } from '../lib/chromium.mjs'
import { Command } from '../lib/command-line.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'

const FILM = generated(9_000_000)
const LOOPBACK = ['--listen', '/ip4/127.0.0.1/tcp/0']
const TRANSFER_MS = 60_000

/** A file in a folder of its own. */
function put(folder, name, bytes) {
  mkdirSync(path.join(folder, 'there'), { recursive: true })
  writeFileSync(path.join(folder, 'there', name), bytes)
  return path.join(folder, 'there')
}

const assertSameBytes = (file, bytes) => assert.ok(readFileSync(file).equals(bytes), `${file} differs from the shared file`)

for (const processes of [1, 3]) {
  describe(`a server of ${processes} process${processes > 1 ? 'es' : ''}`, () => {
    test('shows in a browser the page that the command line shares', async (t) => {
      const server = await startServer(t, { processes })
      const folder = newFolder(t)
      const share = new Command(t, put(folder, 'film one.bin', FILM), 'share', ['film one.bin', '--to', addressOf(server), ...LOOPBACK])
      const { page, cid } = await share.event('shared')
      assert.equal(page, `${addressOf(server)}/p/${cid}#filename=film%20one.bin`)
      const visitor = await newVisitor(t, server)
      await visitor.goTo(page)
      await visitor.waitUntilComplete(TRANSFER_MS)
      assertSameBytes(await visitor.saveFile('film one.bin'), FILM)
      visitor.assertNoPageErrors()

      await share.interrupt()
      const later = await newVisitor(t, server)
      await later.goTo(page)
      await later.waitUntilComplete(TRANSFER_MS)
    })

    test('counts people, and not the command line', async (t) => {
      const server = await startServer(t, { processes, settings: { 'pages.status_page': true } })
      const people = async () => {
        const shown = await (await fetch(`${addressOf(server)}/status`)).text()
        return Number(/People here<\/dt><dd>(\d+)</.exec(shown)?.[1])
      }
      // Several connections reach several processes.
      const all = async (number) => (await Promise.all(Array.from({ length: 9 }, people))).every((found) => found === number)
      const share = new Command(t, put(newFolder(t), 'a.txt', 'a'), 'share', ['a.txt', '--to', addressOf(server), ...LOOPBACK])
      await share.event('shared')
      await waitUntil(() => all(0), 'the command line is no person')
      const tab = new WebSocket(`${addressOf(server).replace('http', 'ws')}/socket/websocket?vsn=2.0.0`)
      t.after(() => tab.close())
      await waitUntil(() => all(1), 'one person')
    })

    test('gives the command line the page that a browser holds', async (t) => {
      const holder = await newVisitor(t, await startServer(t, { processes }))
      const folder = newFolder(t)
      const link = await holder.sharePage({ files: [{ name: 'film.bin', mimeType: 'application/octet-stream', buffer: FILM }] })
      const get = new Command(t, folder, 'get', [link])
      const got = await get.event('got', TRANSFER_MS)
      assert.deepEqual([got.path, got.bytes, got.peers], ['film.bin', FILM.length, 1])
      assertSameBytes(path.join(folder, 'film.bin'), FILM)
      assert.equal(await get.ended(), 0)
    })

    test('keeps a page available through the command line alone', async (t) => {
      const server = await startServer(t, { processes })
      const holder = await newVisitor(t, server)
      const folder = newFolder(t)
      const link = await holder.sharePage({
        text: '# Still here',
        files: [{ name: 'film.bin', mimeType: 'application/octet-stream', buffer: FILM }],
      })
      const hold = new Command(t, folder, 'hold', [link, '--store', path.join(folder, 'store'), ...LOOPBACK])
      const held = await hold.event('held', TRANSFER_MS)
      assert.equal(new URL(held.page).pathname, new URL(link).pathname)
      await holder.leave()
      const visitor = await newVisitor(t, server)
      await visitor.goTo(link)
      await visitor.waitUntilComplete(TRANSFER_MS)
      await visitor.waitForText('Still here')
      await hold.interrupt()
    })
  })
}

test('the command line and browsers exchange the blocks that they have so far', async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(FILM)
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const folder = newFolder(t)
  const holds = [1, 2].map(
    (n) => new Command(t, folder, 'hold', [`${addressOf(server)}/p/${root}`, '--store', path.join(folder, `store-${n}`), ...LOOPBACK]),
  )
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  await Promise.all([visitor.waitUntilComplete(TRANSFER_MS), ...holds.map((hold) => hold.event('held', TRANSFER_MS))])
  await Promise.all(holds.map((hold) => hold.interrupt()))
})

test('the command line handles peers that send wrong bytes or never reply', async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(FILM)
  await joinPage(t, server, root, 'all', lyingHolder())
  await joinPage(t, server, root, 'all', silentHolder())
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const folder = newFolder(t)
  const get = new Command(t, folder, 'get', [`${addressOf(server)}/p/${root}#filename=film.bin`])
  await get.event('got', TRANSFER_MS)
  assertSameBytes(path.join(folder, 'film.bin'), FILM)
})

test('the command line reconnects after a restart of the server', async (t) => {
  const first = await startServer(t)
  const { port } = first
  const folder = newFolder(t)
  const share = new Command(t, put(folder, 'film.bin', FILM), 'share', ['film.bin', '--to', addressOf(first), ...LOOPBACK])
  const { page } = await share.event('shared')
  await first.stop()
  await waitUntil(() => share.stderr.includes('trying again'), 'the command reports the lost connection', TRANSFER_MS)
  const second = await startServer(t, { port })
  const visitor = await newVisitor(t, second)
  await visitor.goTo(page)
  await visitor.waitUntilComplete(TRANSFER_MS)
  assert.match(share.stderr, /is reachable again/)
})

test('the command line reports a server that is unreachable and an unavailable page', async (t) => {
  const server = await startServer(t, { settings: { 'limits.peers_per_page_max': 0 } })
  const folder = newFolder(t)
  const there = put(folder, 'film.bin', 'short')
  const full = new Command(t, there, 'share', ['film.bin', '--to', addressOf(server), ...LOOPBACK])
  assert.equal(await full.ended(), 1)
  assert.match(full.stderr, /page full/)
  const unreachable = new Command(t, there, 'share', ['film.bin', '--to', 'http://127.0.0.1:1', ...LOOPBACK])
  assert.equal(await unreachable.ended(), 1)
  assert.match(unreachable.stderr, /http:\/\/127\.0\.0\.1:1: Connection refused/)
  const empty = await startServer(t)
  const { root } = blocksOf(FILM)
  const get = new Command(t, folder, 'get', [`${addressOf(empty)}/p/${root}`, '--timeout', '2s'])
  assert.equal(await get.ended(), 3, get.stderr)
})

test('the command line connects over TLS with a certificate that the machine trusts', async (t) => {
  const folder = newFolder(t)
  const { cert, key } = certify(folder, ['localhost'])
  const server = await startServer(t, { settings: { 'tls.cert': cert, 'tls.key': key } })
  const site = `https://localhost:${server.port}`
  const there = put(folder, 'film.bin', FILM)
  const untrusting = new Command(t, there, 'share', ['film.bin', '--to', site, ...LOOPBACK])
  assert.equal(await untrusting.ended(), 1)
  assert.match(untrusting.stderr, /certificate/)
  const share = new Command(t, there, 'share', ['film.bin', '--to', site, ...LOOPBACK], { SSL_CERT_FILE: cert })
  const { page } = await share.event('shared')
  const get = new Command(t, folder, 'get', [page, '-o', 'copy.bin'], { SSL_CERT_FILE: cert })
  await get.event('got', TRANSFER_MS)
  assertSameBytes(path.join(folder, 'copy.bin'), FILM)

  const browser = await launch(['--ignore-certificate-errors'])
  t.after(() => browser.close())
  const tab = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage()
  await tab.goto(page)
  await tab.locator('.status-panel.held').waitFor({ timeout: TRANSFER_MS })
  assert.equal(cidOf(page), cidOf(tab.url()))
})
