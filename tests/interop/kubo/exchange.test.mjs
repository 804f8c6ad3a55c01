// kubo and our host exchange files over Bitswap, each as the only peer of the other.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { sha256 } from '../lib/hashes.mjs'
import { Libp2pHost } from '../lib/libp2p-host.mjs'
import { Kubo, buildKubo, whyNoKubo } from '../lib/kubo.mjs'
import { waitUntil } from '../lib/deadlines.mjs'

/** Host options, and the `ipfs add` options that create the same CID. */
const PROFILES = {
  default: [],
  raw: ['--cid-version=1', '--raw-leaves', '--chunker=size-1048576'],
  2025: ['--cid-version=1', '--raw-leaves', '--chunker=size-1048576', '--max-file-links=1024'],
}
const EMPTY_RAW = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
const MIB = 1 << 20
/** Memory that a host may use, whatever the amount of content that it transfers. */
const PEAK_BYTES_MAX = 64 * MIB

const folder = newFolder()
let files = 0

/** Writes these bytes, or this number of random bytes; two files always differ, even with one byte. */
function file(bytes) {
  const name = path.join(folder, `file-${files++}`)
  writeFileSync(name, typeof bytes === 'number' ? distinctBytes(bytes) : bytes)
  return name
}

function distinctBytes(length) {
  const bytes = randomBytes(length)
  bytes[0] = files
  // A last block of one byte is not that of another file, which a node may have already.
  if (length > 1) bytes[length - 1] = 0x80 | files
  return bytes
}

const assertSameBytes = (one, other) => assert.equal(sha256(readFileSync(one)), sha256(readFileSync(other)))

/** @typedef {{ settings?: object, args?: string[], swarmKey?: string, algorithm?: 'rsa', dials?: 'host' | 'kubo' }} PairOptions */

/** A kubo and a host that are connected until the test ends; `dials` says which one dials. */
async function pair(test, /** @type {PairOptions} */ { settings = {}, args = [], swarmKey, algorithm, dials = 'host' } = {}) {
  const kubo = await Kubo.start({ settings, swarmKey, algorithm })
  test.after(() => kubo.stop())
  const host = await Libp2pHost.start(...args)
  test.after(() => host.stop())
  if (dials === 'host') await host.command('connect', kubo.address)
  else await kubo.connect(host.address)
  return { kubo, host }
}

/** Asserts that the host fetches the file that kubo added, and that every byte arrives once. */
async function hostFetches(host, kubo, original, ...options) {
  const cid = await kubo.add(original, ...options)
  const copy = path.join(folder, `file-${files++}`)
  const before = await host.command('stats')
  const fetched = await host.command('fetch', cid, copy)
  assertSameBytes(original, copy)
  assert.equal(fetched.fetched_bytes, fetched.total_bytes)
  const after = await host.command('stats')
  assert.equal(after.received_block_bytes - before.received_block_bytes, fetched.fetched_bytes)
  assert.equal(after.duplicate_block_bytes, before.duplicate_block_bytes)
  rmSync(copy)
  return fetched
}

async function kuboFetches(kubo, host, original, profile = '2025') {
  const { cid } = await host.command('share', original, profile)
  assert.equal(cid, await kubo.add(original, '-n', ...PROFILES[profile]), 'both create the same CID')
  assert.equal(sha256(await kubo.cat(cid)), sha256(readFileSync(original)))
  return cid
}

describe('kubo', { skip: whyNoKubo }, () => {
  before(buildKubo)

  it('serves us files of any size and layout', async (test) => {
    const { kubo, host } = await pair(test)
    for (const [profile, options] of Object.entries(PROFILES)) {
      for (const bytes of [1, 262_145, 20 * MIB + 1]) {
        await test.test(`${bytes} bytes, ${profile}`, () => hostFetches(host, kubo, file(bytes), ...options))
      }
    }
  })

  it('fetches files of any size and layout', async (test) => {
    const { kubo, host } = await pair(test)
    for (const profile of Object.keys(PROFILES)) {
      for (const bytes of [1, 262_145, 20 * MIB + 1]) {
        await test.test(`${bytes} bytes, ${profile}`, () => kuboFetches(kubo, host, file(bytes), profile))
      }
    }
    assert.equal(Number((await kubo.bitswap()).DupBlksReceived), 0)
  })

  it('exchanges files with us when its key is of RSA, as those of the well-known peers of the public network', async (test) => {
    const { kubo, host } = await pair(test, { algorithm: 'rsa' })
    assert.match(kubo.peer, /^Qm/)
    await hostFetches(host, kubo, file(MIB))
    await kuboFetches(kubo, host, file(MIB))
    const noise = await pair(test, { algorithm: 'rsa', settings: { 'Swarm.Transports.Security.TLS': false }, dials: 'kubo' })
    await hostFetches(noise.host, noise.kubo, file(MIB))
  })

  it('serves us blocks of the largest size, and more of them than one wantlist holds', async (test) => {
    const { kubo, host } = await pair(test)
    await hostFetches(host, kubo, file(9 * MIB), '--raw-leaves', '--chunker=size-2096896')
    const { fetched_blocks } = await hostFetches(host, kubo, file(12_000_000), '--raw-leaves', '--chunker=size-4000')
    assert.ok(fetched_blocks > 3000)
  })

  it('never receives more wants than it stores, even from a host with a large request window', async (test) => {
    const { kubo, host } = await pair(test, { args: ['--window', String(32 * MIB)] })
    await hostFetches(host, kubo, file(20_000_000), '--raw-leaves', '--chunker=size-4000')
  })

  it('exchanges large batches with us on a busy machine, and stays connected', async (test) => {
    const { kubo, host } = await pair(test)
    const load = Array.from({ length: 6 }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }))
    test.after(() => {
      for (const child of load) child.kill('SIGKILL')
    })
    await hostFetches(host, kubo, file(64 * MIB), ...PROFILES[2025])
    await kuboFetches(kubo, host, file(64 * MIB))
    const { dropped_peers, peers } = await host.command('stats')
    assert.deepEqual([dropped_peers, peers], [0, 1])
  })

  it('serves and fetches directories', async (test) => {
    const { kubo, host } = await pair(test)
    const directory = path.join(folder, 'directory')
    mkdirSync(path.join(directory, 'below/it'), { recursive: true })
    writeFileSync(path.join(directory, 'one'), randomBytes(300_000))
    writeFileSync(path.join(directory, 'below/it/two'), 'two')
    writeFileSync(path.join(directory, 'below/empty'), '')
    const cid = await kubo.add(directory)
    await host.command('fetch', cid)

    const other = await Kubo.start()
    test.after(() => other.stop())
    await other.connect(host.address)
    const copy = path.join(folder, 'copy')
    await other.command(['get', '-o', copy, cid])
    for (const name of ['one', 'below/it/two', 'below/empty']) assertSameBytes(path.join(directory, name), path.join(copy, name))
  })

  it('gets the empty block from us, and we never request it', async (test) => {
    const { kubo, host } = await pair(test)
    assert.equal((await host.command('fetch', EMPTY_RAW)).fetched_blocks, 0)
    assert.equal((await kubo.bytes(['--timeout=20s', 'block', 'get', EMPTY_RAW])).length, 0)
  })

  it('waits for a block that we get later, and we wait for one of its own', async (test) => {
    const { kubo, host } = await pair(test, { dials: 'kubo' })
    const ours = file(500)
    const cid = await kubo.add(ours, '-n', ...PROFILES[2025])
    const waiting = kubo.cat(cid)
    await waitUntil(async () => (await kubo.bitswap()).Wantlist?.length > 0, 'kubo wants it')
    await host.command('share', ours)
    assert.equal(sha256(await waiting), sha256(readFileSync(ours)))

    const theirs = file(300_000)
    const later = await kubo.add(theirs, '-n')
    const fetching = host.command('fetch', later)
    await waitUntil(async () => (await kubo.command(['bitswap', 'wantlist', '-p', host.peer])).includes(later), 'the host wants it')
    assert.equal(await kubo.add(theirs), later)
    await fetching
  })

  it('may restart during a fetch, which then continues', async (test) => {
    const { kubo, host } = await pair(test)
    const cid = await kubo.add(file(300 * MIB))
    const fetching = host.command('fetch', cid)
    await kubo.pause()
    await kubo.resume()
    await kubo.connect(host.address)
    const { fetched_bytes, total_bytes } = await fetching
    assert.equal(fetched_bytes, total_bytes)
  })

  for (const [name, settings] of Object.entries({
    'Noise alone': { 'Swarm.Transports.Security.TLS': false },
    'TLS alone': { 'Swarm.Transports.Security.Noise': false },
  })) {
    it(`uses ${name} with us`, async (test) => {
      const { kubo, host } = await pair(test, { settings })
      await hostFetches(host, kubo, file(3 * MIB))
      await kuboFetches(kubo, host, file(3 * MIB))
    })
  }

  it('uses QUIC with us', async (test) => {
    const quic = '/ip4/127.0.0.1/udp/0/quic-v1'
    const settings = { 'Addresses.Swarm': [quic], 'Swarm.Transports.Network.TCP': false }
    const { kubo, host } = await pair(test, { settings, args: ['--listen', quic] })
    await hostFetches(host, kubo, file(3 * MIB))
    await kuboFetches(kubo, host, file(3 * MIB))
  })

  it('shares a private network with us', async (test) => {
    const swarmKey = randomBytes(32).toString('hex')
    const { kubo, host } = await pair(test, { swarmKey, args: ['--swarm-key', swarmKey] })
    await hostFetches(host, kubo, file(3 * MIB))
    await kuboFetches(kubo, host, file(3 * MIB))
    const stranger = await Libp2pHost.start()
    test.after(() => stranger.stop())
    await assert.rejects(stranger.command('connect', kubo.address))
  })

  it('sends and fetches 300 MiB while our memory stays small', async (test) => {
    const { kubo, host } = await pair(test, { args: ['--folder', newFolder()] })
    const original = file(300 * MIB)
    const cid = await kubo.add(original)
    await host.command('fetch', cid)
    assert.ok(host.peakBytes() <= PEAK_BYTES_MAX, `fetching from kubo took ${host.peakBytes() / MIB} MiB`)

    const other = await Kubo.start()
    test.after(() => other.stop())
    await other.connect(host.address)
    assert.equal(sha256(await other.cat(cid)), sha256(readFileSync(original)))
    assert.ok(host.peakBytes() <= PEAK_BYTES_MAX, `serving kubo took ${host.peakBytes() / MIB} MiB`)

    const leecher = await Libp2pHost.start('--folder', newFolder())
    test.after(() => leecher.stop())
    await leecher.command('connect', host.address)
    await leecher.command('fetch', cid)
    for (const each of [host, leecher]) {
      assert.ok(each.peakBytes() <= PEAK_BYTES_MAX, `a transfer between two hosts took ${each.peakBytes() / MIB} MiB`)
    }
    rmSync(original)
  })

  it('stores our provider records', async (test) => {
    const lan = '/ipfs/lan/kad/1.0.0'
    const settings = { 'Routing.Type': 'dhtserver', 'Provide.Enabled': true }
    const kubo = await Kubo.start({ settings })
    test.after(() => kubo.stop())
    const args = ['--dht', 'server', '--dht-protocol', lan, '--bootstrap', kubo.address]
    const [provider, seeker] = [await Libp2pHost.start(...args), await Libp2pHost.start(...args)]
    test.after(() => Promise.all([provider.stop(), seeker.stop()]))
    await waitUntil(async () => (await kubo.command(['swarm', 'peers'])).split('\n').length === 2, 'both are connected', 30_000)
    const shared = file(500_000)
    const { cid } = await provider.command('share', shared)
    await waitUntil(
      async () => {
        await provider.command('provide', cid)
        return (await seeker.command('find', cid)).providers.includes(provider.peer)
      },
      'the seeker finds the provider',
      30_000,
    )
    await seeker.command('fetch', cid)
  })
})
