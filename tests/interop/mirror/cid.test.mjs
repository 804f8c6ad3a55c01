// Layers by their CIDs: kubo and `watchfire get` fetch them from a mirror.

import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Kubo, buildKubo, whyNoKubo } from '../lib/kubo.mjs'
import { run } from '../lib/program.mjs'
import { Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { binary, startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const PROFILE = ['--cid-version=1', '--raw-leaves', '--chunker=size-1048576']
const LISTEN = ['--ipfs', '--set', 'p2p.listen=/ip4/127.0.0.1/tcp/0']
const PRIVATE_DHT = ['--set', 'p2p.dht_protocol=/ipfs/lan/kad/1.0.0']

const folder = newFolder()
let registry
let names = 0

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
  if (!whyNoKubo) await buildKubo()
})

after(() => registry?.stop())

/** A mirror that runs until the test ends. `peers` are those that it stays connected to. */
async function mirrorWith(t, args, peers = []) {
  const bootstrap = peers.flatMap((peer) => ['--set', `p2p.bootstrap=${peer}`])
  const none = peers.length === 0 ? ['--set', 'p2p.bootstrap='] : []
  const mirror = await startMirror(path.join(folder, `store-${names++}`), [...LISTEN, ...PRIVATE_DHT, ...none, ...bootstrap, ...args])
  t.after(() => mirror.stop())
  const line = () => mirror.lines.find((text) => text.startsWith('Serving IPFS peers at '))
  await waitUntil(line, 'the mirror prints its address for IPFS peers')
  return { mirror, address: /\/ip4\/\S+\/p2p\/\w+/.exec(line())[0] }
}

async function startKubo(t, settings = {}) {
  const kubo = await Kubo.start({ settings })
  t.after(() => kubo.stop())
  return kubo
}

/** What `watchfire mirror cid` prints about an image, once all of it is public. */
async function cidsOf(mirror, name) {
  await run(binary('watchfire'), ['mirror', 'preload', '--mirror', mirror.http(''), name])
  const print = async () =>
    JSON.parse((await run(binary('watchfire'), ['mirror', 'cid', '--json', '--mirror', mirror.http(''), name])).stdout)
  return waitUntil(async () => {
    const printed = await print()
    return printed.contents.every(({ is_public }) => is_public) && printed
  }, 'the image is public')
}

async function newImage(layers) {
  const image = makeImage(layers)
  const repository = `team/app-${names++}`
  await push(registry, repository, 'v1', image)
  return { image, name: `127.0.0.1:${registry.port}/${repository}:v1` }
}

const bytesOf = (image, digest) => [image.manifest, ...image.blobs].find((bytes) => digestOf(bytes) === digest)

function fileOf(bytes) {
  const file = path.join(folder, `file-${names++}`)
  writeFileSync(file, bytes)
  return file
}

describe('a mirror with --ipfs', { skip: whyNoKubo }, () => {
  it('gives each layer to kubo and to watchfire get by the CID that it prints, and announces it', { timeout: 180_000 }, async (t) => {
    const kubo = await startKubo(t, { 'Routing.Type': 'dhtserver' })
    const { image, name } = await newImage([5 * MIB, 20 * MIB, 1000])
    const { mirror, address } = await mirrorWith(t, ['--upstream', registry.url], [kubo.address])
    const { contents } = await cidsOf(mirror, name)
    const kinds = contents.map(({ kind }) => kind)
    assert.deepEqual(kinds, ['manifest', 'config', 'layer', 'layer', 'layer'])
    await kubo.connect(address)
    for (const { kind, digest, bytes, cid } of contents) {
      const wanted = bytesOf(image, digest)
      if (kind !== 'manifest') assert.equal(await kubo.add(fileOf(wanted), '-n', ...PROFILE), cid, 'kubo makes the same CID')
      assert.equal(digestOf(await kubo.cat(cid)), digest)
      assert.equal(bytes, wanted.length)
      const file = path.join(folder, `got-${names++}`)
      await run(binary('watchfire'), ['get', cid, '--peer', address, '--output', file], { cwd: folder })
      assert.equal(digestOf(readFileSync(file)), digest)
      rmSync(file)
    }
    const leaf = (await kubo.command(['refs', contents[2].cid])).split('\n')[0]
    assert.ok((await kubo.bytes(['block', 'get', leaf])).equals(image.layers[0].subarray(0, MIB)))

    const [, peer] = address.split('/p2p/')
    for (const root of contents.map(({ cid }) => cid)) {
      const isFound = async () => (await kubo.command(['routing', 'findprovs', '-n', '1', root])).includes(peer)
      await waitUntil(isFound, 'content routing finds the mirror', 60_000)
    }
  })

  it('no longer gives a layer that has left the store', { timeout: 60_000 }, async (t) => {
    const kubo = await startKubo(t)
    const first = await newImage([5 * MIB])
    const second = await newImage([6 * MIB])
    const { mirror, address } = await mirrorWith(t, ['--upstream', registry.url, '--store-bytes-max', String(8 * MIB)])
    const before = await cidsOf(mirror, first.name)
    await kubo.connect(address)
    await cidsOf(mirror, second.name)
    await assert.rejects(kubo.bytes(['--timeout=3s', 'block', 'get', before.contents[2].cid]))
  })
})
