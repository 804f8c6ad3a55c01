// Terminals and browsers on one page.

import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'

import { arrive, addressOf, cidOf, serve } from '../browser/people.mjs'
import { blocksOf } from '../browser/bitswap.mjs'
import { honest, joinPage, lying, silent } from '../browser/raw_peer.mjs'
import { generated } from '../browser/things.mjs'
import { certify } from '../lib/certificate.mjs'
import { launch } from '../lib/chromium.mjs'
import { Verb } from '../lib/terminal.mjs'
import { until } from '../lib/waiting.mjs'

const FILM = generated(9_000_000)
const LOOPBACK = ['--listen', '/ip4/127.0.0.1/tcp/0']
const TRANSFER_MS = 60_000

function scratch(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'visits-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A file in a folder of its own. */
function put(folder, name, bytes) {
  mkdirSync(path.join(folder, 'there'), { recursive: true })
  writeFileSync(path.join(folder, 'there', name), bytes)
  return path.join(folder, 'there')
}

const sameBytes = (file, bytes) => assert.ok(readFileSync(file).equals(bytes), `${file} is what was shared`)

for (const processes of [1, 3]) {
  describe(`a server of ${processes} process${processes > 1 ? 'es' : ''}`, () => {
    test('shows in a browser what a terminal shares', async (t) => {
      const server = await serve(t, { processes })
      const folder = scratch(t)
      const share = new Verb(t, put(folder, 'film one.bin', FILM), 'share', ['film one.bin', '--to', addressOf(server), ...LOOPBACK])
      const { page, cid } = await share.event('shared')
      assert.equal(page, `${addressOf(server)}/p/${cid}#filename=film%20one.bin`)
      const visitor = await arrive(t, server)
      await visitor.goTo(page)
      await visitor.holdsIt(TRANSFER_MS)
      sameBytes(await visitor.saves('film one.bin'), FILM)
      visitor.hasNoComplaints()

      await share.interrupt()
      const later = await arrive(t, server)
      await later.goTo(page)
      await later.holdsIt(TRANSFER_MS)
    })

    test('gives a terminal what a browser holds', async (t) => {
      const server = await serve(t, { processes })
      const holder = await arrive(t, server)
      const folder = scratch(t)
      const link = await holder.light({ files: [{ name: 'film.bin', mimeType: 'application/octet-stream', buffer: FILM }] })
      const get = new Verb(t, folder, 'get', [link])
      const got = await get.event('got', TRANSFER_MS)
      assert.deepEqual([got.path, got.bytes, got.peers], ['film.bin', FILM.length, 1])
      sameBytes(path.join(folder, 'film.bin'), FILM)
      assert.equal(await get.ended(), 0)
    })

    test('keeps a page burning on a terminal', async (t) => {
      const server = await serve(t, { processes })
      const holder = await arrive(t, server)
      const folder = scratch(t)
      const link = await holder.light({ text: '# Still here', files: [{ name: 'film.bin', mimeType: 'application/octet-stream', buffer: FILM }] })
      const hold = new Verb(t, folder, 'hold', [link, '--store', path.join(folder, 'store'), ...LOOPBACK])
      const held = await hold.event('held', TRANSFER_MS)
      assert.equal(new URL(held.page).pathname, new URL(link).pathname)
      await holder.leave()
      const visitor = await arrive(t, server)
      await visitor.goTo(link)
      await visitor.holdsIt(TRANSFER_MS)
      await visitor.sees('Still here')
      await hold.interrupt()
    })
  })
}

test('terminals and browsers get from each other what they have by then', async (t) => {
  const server = await serve(t)
  const { root, blocks } = blocksOf(FILM)
  await joinPage(t, server, root, 'all', honest(blocks))
  const folder = scratch(t)
  const holds = [1, 2].map((n) => new Verb(t, folder, 'hold', [`${addressOf(server)}/p/${root}`, '--store', path.join(folder, `store-${n}`), ...LOOPBACK]))
  const visitor = await arrive(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  await Promise.all([visitor.holdsIt(TRANSFER_MS), ...holds.map((hold) => hold.event('held', TRANSFER_MS))])
  await Promise.all(holds.map((hold) => hold.interrupt()))
})

test('a terminal is not taken in by who lies, nor held up by who is silent', async (t) => {
  const server = await serve(t)
  const { root, blocks } = blocksOf(FILM)
  await joinPage(t, server, root, 'all', lying())
  await joinPage(t, server, root, 'all', silent())
  await joinPage(t, server, root, 'all', honest(blocks))
  const folder = scratch(t)
  const get = new Verb(t, folder, 'get', [`${addressOf(server)}/p/${root}#filename=film.bin`])
  await get.event('got', TRANSFER_MS)
  sameBytes(path.join(folder, 'film.bin'), FILM)
})

test('a terminal comes back when the server does', async (t) => {
  const first = await serve(t)
  const { port } = first
  const folder = scratch(t)
  const share = new Verb(t, put(folder, 'film.bin', FILM), 'share', ['film.bin', '--to', addressOf(first), ...LOOPBACK])
  const { page } = await share.event('shared')
  await first.stop()
  await until(() => share.stderr.includes('trying again'), 'the terminal says that the server is gone', TRANSFER_MS)
  const second = await serve(t, { port })
  const visitor = await arrive(t, second)
  await visitor.goTo(page)
  await visitor.holdsIt(TRANSFER_MS)
  assert.match(share.stderr, /is there again/)
})

test('who cannot be reached, or does not hold it, is told', async (t) => {
  const server = await serve(t, { settings: { 'limits.peers_per_page_max': 0 } })
  const folder = scratch(t)
  const there = put(folder, 'film.bin', 'short')
  const full = new Verb(t, there, 'share', ['film.bin', '--to', addressOf(server), ...LOOPBACK])
  assert.equal(await full.ended(), 1)
  assert.match(full.stderr, /page full/)
  const nobody = new Verb(t, there, 'share', ['film.bin', '--to', 'http://127.0.0.1:1', ...LOOPBACK])
  assert.equal(await nobody.ended(), 1)
  assert.match(nobody.stderr, /http:\/\/127\.0\.0\.1:1: Connection refused/)
  const empty = await serve(t)
  const { root } = blocksOf(FILM)
  const get = new Verb(t, folder, 'get', [`${addressOf(empty)}/p/${root}`, '--timeout', '2s'])
  assert.equal(await get.ended(), 3, get.stderr)
})

test('the way may be encrypted, with a certificate that the machine trusts', async (t) => {
  const folder = scratch(t)
  const { cert, key } = certify(folder, ['localhost'])
  const server = await serve(t, { settings: { 'tls.cert': cert, 'tls.key': key } })
  const site = `https://localhost:${server.port}`
  const there = put(folder, 'film.bin', FILM)
  const stranger = new Verb(t, there, 'share', ['film.bin', '--to', site, ...LOOPBACK])
  assert.equal(await stranger.ended(), 1)
  assert.match(stranger.stderr, /certificate/)
  const share = new Verb(t, there, 'share', ['film.bin', '--to', site, ...LOOPBACK], { SSL_CERT_FILE: cert })
  const { page } = await share.event('shared')
  const get = new Verb(t, folder, 'get', [page, '-o', 'copy.bin'], { SSL_CERT_FILE: cert })
  await get.event('got', TRANSFER_MS)
  sameBytes(path.join(folder, 'copy.bin'), FILM)

  const browser = await launch(['--ignore-certificate-errors'])
  t.after(() => browser.close())
  const tab = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage()
  await tab.goto(page)
  await tab.getByRole('textbox', { name: 'Link to this page' }).waitFor({ timeout: TRANSFER_MS })
  assert.equal(cidOf(page), cidOf(tab.url()))
})
