// kubo loads what browsers hold, and browsers load what kubo holds, through one server.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, it } from 'node:test'

import { newVisitor, cidOf, startServer } from '../browser/page-driver.mjs'
import { blocksOf } from '../browser/bitswap-messages.mjs'
import { honestHolder, joinPage } from '../browser/raw-peer.mjs'
import { generated } from '../browser/fixtures.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Kubo, buildKubo, whyNoKubo } from '../lib/kubo.mjs'
import { processesOfAll } from '../lib/server.mjs'
import { waitUntil } from '../lib/deadlines.mjs'

const FILM = generated(9_000_000)
const PROFILE = ['--cid-version=1', '--raw-leaves', '--chunker=size-1048576', '--max-file-links=1024']
const TRANSFER_MS = 60_000
/** Less than the interval at which kubo repeats a request. */
const PROMPT_MS = 15_000

/** A server with the libp2p gateway, and the gateway's address. */
async function startGateway(t, settings = {}) {
  const p2p = { 'p2p.listen': '/ip4/127.0.0.1/tcp/0', ...settings }
  const server = await startServer(t, { settings: p2p })
  const listening = () => /the gateway is listening.*address=(\S+)/.exec(plain(server.stderr))
  const [, address] = await waitUntil(listening, 'the gateway reports its address')
  return { server, address, peer: address.split('/').at(-1) }
}

/** A log without its colour codes. */
function plain(text) {
  return text.replaceAll(/\x1b\[[0-9;]*m/g, '')
}

async function startKubo(t, options) {
  const kubo = await Kubo.start(options)
  t.after(() => kubo.stop())
  return kubo
}

function fileOf(t, bytes) {
  const folder = newFolder(t)
  writeFileSync(path.join(folder, 'film.bin'), bytes)
  return path.join(folder, 'film.bin')
}

const film = (bytes) => ({ name: 'film.bin', mimeType: 'application/octet-stream', buffer: bytes })

describe(`between browsers and kubo, ${processesOfAll} process(es)`, { skip: whyNoKubo }, () => {
  before(buildKubo)

  it('kubo fetches by its CID a page that only a tab holds', async (t) => {
    const { server, address } = await startGateway(t)
    const kubo = await startKubo(t)
    await kubo.connect(address)
    const holder = await newVisitor(t, server)
    const cid = cidOf(await holder.sharePage({ files: [film(FILM)] }))
    assert.ok((await kubo.cat(cid)).equals(FILM))
    assert.equal(Number((await kubo.bitswap()).DupBlksReceived), 0)
    holder.assertNoPageErrors()

    const sent = () => server.metric('watchfire_p2p_sent_block_bytes_total')
    await waitUntil(async () => (await sent()) >= FILM.length, 'the metric counts the sent bytes', PROMPT_MS)
    assert.equal(await server.metric('watchfire_p2p_connections'), 1)
    const { p2p } = await (await fetch(server.http('/limits'))).json()
    assert.equal(p2p.connections_max.value, 256)
  })

  it('kubo fetches a page of many files, and waits for one that is not available yet', async (t) => {
    const { server, address } = await startGateway(t)
    const kubo = await startKubo(t)
    await kubo.connect(address)
    const holder = await newVisitor(t, server)
    const files = [1, 2, 3].map((n) => ({ ...film(FILM.subarray(n * 1000, n * 2_000_000)), name: `film ${n}.bin` }))
    const cid = cidOf(await holder.sharePage({ text: '# Films', files }))
    await kubo.command(['pin', 'add', cid])
    assert.ok((await kubo.cat(`${cid}/film 2.bin`)).equals(files[1].buffer))

    const late = generated(300_000)
    const { root } = blocksOf(late)
    const waiting = kubo.cat(root)
    await waitUntil(async () => (await kubo.bitswap()).Wantlist?.length > 0, 'kubo wants it')
    const other = await newVisitor(t, server)
    assert.equal(cidOf(await other.sharePage({ files: [film(late)] })), root)
    const sharedAt = performance.now()
    assert.ok((await waiting).equals(late))
    assert.ok(performance.now() - sharedAt < PROMPT_MS, 'kubo had to repeat its request')
  })

  it('a browser opens a link whose CID only kubo has', async (t) => {
    const { server, address } = await startGateway(t)
    const kubo = await startKubo(t)
    await kubo.connect(address)
    const cid = await kubo.add(fileOf(t, FILM), ...PROFILE)
    const visitor = await newVisitor(t, server)
    await visitor.goTo(`/p/${cid}#filename=film.bin`)
    await visitor.waitUntilComplete(TRANSFER_MS)
    assert.ok(readFileSync(await visitor.saveFile('film.bin')).equals(FILM))
    visitor.assertNoPageErrors()

    await kubo.pause()
    const other = await newVisitor(t, server)
    await other.goTo(`/p/${cid}#filename=film.bin`)
    await other.waitUntilComplete(TRANSFER_MS)
    await kubo.resume()
  })

  it('the gateway stores nothing when its cache is off', async (t) => {
    const { server, address } = await startGateway(t, { 'p2p.cache_bytes_max': 0 })
    const large = generated(60_000_000)
    const { root, blocks } = blocksOf(large)
    const holder = await joinPage(t, server, root, 'all', honestHolder(blocks))
    const kubo = await startKubo(t)
    await kubo.connect(address)
    assert.ok((await kubo.cat(root)).equals(large))
    t.diagnostic(`${blocks.size} blocks, ${holder.blocksSent} sent by the holder`)
    assert.ok(holder.blocksSent <= blocks.size * 1.1, 'the gateway fetched many blocks twice')
  })

  it('two kubo nodes get from the cache what one browser sent once', async (t) => {
    const { server, address } = await startGateway(t)
    const { root, blocks } = blocksOf(FILM)
    const holder = await joinPage(t, server, root, 'all', honestHolder(blocks))
    for (const kubo of [await startKubo(t), await startKubo(t)]) {
      await kubo.connect(address)
      assert.ok((await kubo.cat(root)).equals(FILM))
    }
    assert.ok(holder.blocksSent <= blocks.size * 1.1, `${holder.blocksSent} of ${blocks.size} blocks`)
  })

  it('the gateway sends no unavailable blocks and accepts no unrequested ones', async (t) => {
    const { server, address } = await startGateway(t)
    const kubo = await startKubo(t)
    await kubo.connect(address)
    const { root, blocks } = blocksOf(FILM)
    const seeker = await joinPage(t, server, root, 'some', honestHolder(blocks))
    await assert.rejects(kubo.bytes(['--timeout=3s', 'cat', root]))
    assert.equal(seeker.blocksSent, 0)
    const secret = await kubo.add(fileOf(t, generated(20_000)), ...PROFILE)
    const requested = seeker.wantsReceived.map(({ cid }) => cid.toString('hex'))
    assert.ok(!requested.includes(secret))
  })

  it('content routing publishes available pages, and finds requested ones', async (t) => {
    const routing = { 'Routing.Type': 'dhtserver', 'Provide.Enabled': true }
    const hub = await startKubo(t, { settings: routing })
    const { server, peer } = await startGateway(t, {
      'p2p.dht': 'server',
      'p2p.dht_protocol': '/ipfs/lan/kad/1.0.0',
      'p2p.bootstrap': hub.address,
    })
    await waitUntil(async () => (await hub.command(['swarm', 'peers'])).includes(peer), 'the gateway is connected', 30_000)
    const holder = await newVisitor(t, server)
    const cid = cidOf(await holder.sharePage({ files: [film(FILM)] }))
    const isFound = async () => (await hub.command(['routing', 'findprovs', '-n', '1', cid])).includes(peer)
    await waitUntil(isFound, 'content routing finds our server', TRANSFER_MS)

    const other = await startKubo(t, { settings: routing })
    await other.connect(hub.address)
    const theirs = await other.add(fileOf(t, generated(3_000_000)), ...PROFILE)
    await waitUntil(
      async () => {
        await other.command(['routing', 'provide', theirs])
        return (await hub.command(['routing', 'findprovs', '-n', '1', theirs])).includes(other.peer)
      },
      'content routing finds the other kubo',
      TRANSFER_MS,
    )
    const visitor = await newVisitor(t, server)
    await visitor.goTo(`/p/${theirs}#filename=film.bin`)
    await visitor.waitUntilComplete(TRANSFER_MS)
  })

  it('a page that is shared on one server opens on another', async (t) => {
    const one = await startGateway(t)
    const other = await startGateway(t, { 'p2p.bootstrap': one.address })
    const holder = await newVisitor(t, one.server)
    const link = await holder.sharePage({ text: '# From another server', files: [film(FILM)] })
    const visitor = await newVisitor(t, other.server)
    await visitor.goTo(new URL(link).pathname)
    await visitor.waitUntilComplete(TRANSFER_MS)
    await visitor.waitForText('From another server')
  })
})
