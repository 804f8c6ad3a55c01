// Layers and images by their CIDs: kubo and `watchfire get` fetch them from a mirror, and containerd pulls them from kubo.

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { Containerd, VERSION_2 } from '../lib/containerd.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Kubo, buildKubo, whyNoKubo } from '../lib/kubo.mjs'
import { buildContainerd2, whyNoContainerd2 } from '../lib/mirror-tools.mjs'
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
    const { contents, pull } = await cidsOf(mirror, name)
    const kinds = contents.map(({ kind }) => kind)
    assert.deepEqual(kinds, ['image', 'manifest', 'config', 'layer', 'layer', 'layer'])
    await kubo.connect(address)
    for (const { kind, digest, bytes, cid } of contents.slice(1)) {
      const wanted = bytesOf(image, digest)
      if (kind !== 'manifest') assert.equal(await kubo.add(fileOf(wanted), '-n', ...PROFILE), cid, 'kubo makes the same CID')
      assert.equal(digestOf(await kubo.cat(cid)), digest)
      assert.equal(bytes, wanted.length)
      const file = path.join(folder, `got-${names++}`)
      await run(binary('watchfire'), ['get', cid, '--peer', address, '--output', file], { cwd: folder })
      assert.equal(digestOf(readFileSync(file)), digest)
      rmSync(file)
    }
    const leaf = (await kubo.command(['refs', contents[3].cid])).split('\n')[0]
    assert.ok((await kubo.bytes(['block', 'get', leaf])).equals(image.layers[0].subarray(0, MIB)))

    const [{ cid }] = contents
    assert.equal(pull, `127.0.0.1:${mirror.port}/ipfs/${cid}@${image.digest}`)
    const layout = path.join(folder, `layout-${names++}`)
    await kubo.command(['get', '-o', layout, cid])
    assert.equal(await kubo.add(layout, '-n', ...PROFILE), cid, 'kubo makes the same folder')
    const [, peer] = address.split('/p2p/')
    for (const root of [cid, contents[3].cid]) {
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
    await assert.rejects(kubo.bytes(['--timeout=3s', 'block', 'get', before.contents[3].cid]))
  })

  const engines = { containerd: {}, 'containerd 2': { programs: VERSION_2 } }
  for (const [engine, options] of Object.entries(engines)) {
    const skip = engine === 'containerd 2' && whyNoContainerd2
    it(`lets ${engine} pull an image that kubo has, without a registry`, { skip, timeout: 180_000 }, async (t) => {
      if (engine === 'containerd 2') await buildContainerd2()
      const kubo = await startKubo(t)
      const { image, name } = await newImage([5 * MIB, 1000])
      const layout = path.join(folder, `layout-${names++}`)
      mkdirSync(layout)
      await run('skopeo', ['copy', '--src-tls-verify=false', `docker://${name}`, `oci:${layout}`])
      // Other importers make other blocks: leaves of 256 KiB in nodes, and CIDs of version 0.
      const cid = await kubo.command(['cid', 'base32', await kubo.add(layout)])
      const { mirror } = await mirrorWith(t, [], [kubo.address])
      const containerd = await Containerd.start(path.join(folder, `containerd-${names++}`), options)
      t.after(() => containerd.stop())
      const local = `127.0.0.1:${mirror.port}/ipfs/${cid}@${image.digest}`
      await containerd.ctr('images', 'pull', '--plain-http', local)
      const url = mirror.http('')
      containerd.useMirrors('images.example', 'http://127.0.0.1:1', [{ url, capabilities: ['pull', 'resolve'] }])
      const named = `images.example/ipfs/${cid}:latest`
      await containerd.pull(named)
      for (const pulled of [local, named]) {
        const { stdout } = await containerd.ctr('images', 'check', `name==${pulled}`)
        assert.match(stdout, /complete \(\d+\/\d+\)/)
      }
      const again = await cidsOf(mirror, `ipfs://${cid}`)
      assert.equal(again.contents[1].digest, image.digest)

      const unknown = 'bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi'
      const startedAt = performance.now()
      await assert.rejects(containerd.pull(`images.example/ipfs/${unknown}:latest`))
      const failed = await fetch(mirror.http(`/v2/ipfs/${unknown}/manifests/latest`))
      assert.equal(failed.status, 404)
      assert.match((await failed.json()).errors[0].message, /no IPFS peer sent/)
      assert.ok(performance.now() - startedAt < 90_000, 'the wait is bounded')
    })
  }
})
