// What browsers hold, kubo can have; what kubo holds, browsers can open: through one server of ours.

import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { before, describe, it } from 'node:test'

import { arrive, cidOf, serve } from '../browser/people.mjs'
import { blocksOf } from '../browser/bitswap.mjs'
import { honest, joinPage } from '../browser/raw_peer.mjs'
import { generated } from '../browser/things.mjs'
import { Kubo, buildKubo, whyNoKubo } from '../lib/kubo.mjs'
import { processesOfAll } from '../lib/server.mjs'
import { until } from '../lib/waiting.mjs'

const FILM = generated(9_000_000)
const PROFILE = ['--cid-version=1', '--raw-leaves', '--chunker=size-1048576', '--max-file-links=1024']
const TRANSFER_MS = 60_000
/** Less than what kubo takes to ask again. */
const PROMPT_MS = 15_000

/** A server that meets other worlds, and where. */
async function meeting(t, settings = {}) {
  const p2p = { 'p2p.listen': '/ip4/127.0.0.1/tcp/0', ...settings }
  const server = await serve(t, { settings: p2p })
  const told = () => /meets other worlds.*address=(\S+)/.exec(plain(server.stderr))
  const [, address] = await until(told, 'the server tells where it meets other worlds')
  return { server, address, peer: address.split('/').at(-1) }
}

/** A log without its colours. */
function plain(text) {
  return text.replaceAll(/\x1b\[[0-9;]*m/g, '')
}

async function kuboOf(t, options) {
  const kubo = await Kubo.start(options)
  t.after(() => kubo.stop())
  return kubo
}

function fileOf(t, bytes) {
  const folder = mkdtempSync(path.join(tmpdir(), 'worlds-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(path.join(folder, 'film.bin'), bytes)
  return path.join(folder, 'film.bin')
}

const film = (bytes) => ({ name: 'film.bin', mimeType: 'application/octet-stream', buffer: bytes })

describe(`between browsers and kubo, ${processesOfAll} process(es)`, { skip: whyNoKubo }, () => {
  before(buildKubo)

  it('kubo fetches by its CID a page that lives in a tab alone', async (t) => {
    const { server, address } = await meeting(t)
    const kubo = await kuboOf(t)
    await kubo.connect(address)
    const holder = await arrive(t, server)
    const cid = cidOf(await holder.light({ files: [film(FILM)] }))
    assert.ok((await kubo.cat(cid)).equals(FILM))
    assert.equal(Number((await kubo.bitswap()).DupBlksReceived), 0)
    holder.hasNoComplaints()

    const sent = () => server.metric('watchfire_p2p_sent_block_bytes_total')
    await until(async () => (await sent()) >= FILM.length, 'the operator is told what went out', PROMPT_MS)
    assert.equal(await server.metric('watchfire_p2p_connections'), 1)
    const { p2p } = await (await fetch(server.http('/limits'))).json()
    assert.equal(p2p.connections_max.value, 256)
  })

  it('kubo fetches a page of many files, and waits for one that is not lit yet', async (t) => {
    const { server, address } = await meeting(t)
    const kubo = await kuboOf(t)
    await kubo.connect(address)
    const holder = await arrive(t, server)
    const files = [1, 2, 3].map((n) => ({ ...film(FILM.subarray(n * 1000, n * 2_000_000)), name: `film ${n}.bin` }))
    const cid = cidOf(await holder.light({ text: '# Films', files }))
    await kubo.command(['pin', 'add', cid])
    assert.ok((await kubo.cat(`${cid}/film 2.bin`)).equals(files[1].buffer))

    const late = generated(300_000)
    const { root } = blocksOf(late)
    const waiting = kubo.cat(root)
    await until(async () => (await kubo.bitswap()).Wantlist?.length > 0, 'kubo wants it')
    const other = await arrive(t, server)
    assert.equal(cidOf(await other.light({ files: [film(late)] })), root)
    const asked = performance.now()
    assert.ok((await waiting).equals(late))
    assert.ok(performance.now() - asked < PROMPT_MS, 'kubo need not ask again')
  })

  it('a browser opens a link whose CID lives in kubo alone', async (t) => {
    const { server, address } = await meeting(t)
    const kubo = await kuboOf(t)
    await kubo.connect(address)
    const cid = await kubo.add(fileOf(t, FILM), ...PROFILE)
    const visitor = await arrive(t, server)
    await visitor.goTo(`/p/${cid}#filename=film.bin`)
    await visitor.holdsIt(TRANSFER_MS)
    assert.ok(readFileSync(await visitor.saves('film.bin')).equals(FILM))
    visitor.hasNoComplaints()

    await kubo.pause()
    const other = await arrive(t, server)
    await other.goTo(`/p/${cid}#filename=film.bin`)
    await other.holdsIt(TRANSFER_MS)
    await kubo.resume()
  })

  it('passes on and keeps nothing when it is told to keep nothing', async (t) => {
    const { server, address } = await meeting(t, { 'p2p.cache_bytes_max': 0 })
    const large = generated(60_000_000)
    const { root, blocks } = blocksOf(large)
    const holder = await joinPage(t, server, root, 'all', honest(blocks))
    const kubo = await kuboOf(t)
    await kubo.connect(address)
    assert.ok((await kubo.cat(root)).equals(large))
    t.diagnostic(`${blocks.size} blocks, ${holder.blocksSent} sent by the one who holds it`)
    assert.ok(holder.blocksSent <= blocks.size * 1.1, 'hardly any block was fetched twice')
  })

  it('two of kubo get from the cache what one browser gave once', async (t) => {
    const { server, address } = await meeting(t)
    const { root, blocks } = blocksOf(FILM)
    const holder = await joinPage(t, server, root, 'all', honest(blocks))
    for (const kubo of [await kuboOf(t), await kuboOf(t)]) {
      await kubo.connect(address)
      assert.ok((await kubo.cat(root)).equals(FILM))
    }
    assert.ok(holder.blocksSent <= blocks.size * 1.1, `${holder.blocksSent} of ${blocks.size} blocks`)
  })

  it('nothing goes out that is not lit here, and nothing comes in that nobody asks for', async (t) => {
    const { server, address } = await meeting(t)
    const kubo = await kuboOf(t)
    await kubo.connect(address)
    const { root, blocks } = blocksOf(FILM)
    const seeker = await joinPage(t, server, root, 'some', honest(blocks))
    await assert.rejects(kubo.bytes(['--timeout=3s', 'cat', root]))
    assert.equal(seeker.blocksSent, 0)
    const secret = await kubo.add(fileOf(t, generated(20_000)), ...PROFILE)
    const asked = seeker.asked.map(({ cid }) => cid.toString('hex'))
    assert.ok(!asked.includes(secret))
  })

  it('content routing knows what is lit, and finds what is sought', async (t) => {
    const routing = { 'Routing.Type': 'dhtserver', 'Provide.Enabled': true }
    const hub = await kuboOf(t, { settings: routing })
    const { server, peer } = await meeting(t, { 'p2p.dht': 'server', 'p2p.dht_protocol': '/ipfs/lan/kad/1.0.0', 'p2p.bootstrap': hub.address })
    await until(async () => (await hub.command(['swarm', 'peers'])).includes(peer), 'they are connected', 30_000)
    const holder = await arrive(t, server)
    const cid = cidOf(await holder.light({ files: [film(FILM)] }))
    const knows = async () => (await hub.command(['routing', 'findprovs', '-n', '1', cid])).includes(peer)
    await until(knows, 'content routing names our server', TRANSFER_MS)

    const stranger = await kuboOf(t, { settings: routing })
    await stranger.connect(hub.address)
    const theirs = await stranger.add(fileOf(t, generated(3_000_000)), ...PROFILE)
    await until(async () => {
      await stranger.command(['routing', 'provide', theirs])
      return (await hub.command(['routing', 'findprovs', '-n', '1', theirs])).includes(stranger.peer)
    }, 'content routing names the stranger', TRANSFER_MS)
    const visitor = await arrive(t, server)
    await visitor.goTo(`/p/${theirs}#filename=film.bin`)
    await visitor.holdsIt(TRANSFER_MS)
  })

  it('a page that is lit on one server opens on another', async (t) => {
    const one = await meeting(t)
    const other = await meeting(t, { 'p2p.bootstrap': one.address })
    const holder = await arrive(t, one.server)
    const link = await holder.light({ text: '# From another world', files: [film(FILM)] })
    const visitor = await arrive(t, other.server)
    await visitor.goTo(new URL(link).pathname)
    await visitor.holdsIt(TRANSFER_MS)
    await visitor.sees('From another world')
  })
})
