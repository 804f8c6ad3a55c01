// Unmodified container tools pull through the mirror. Each verifies the digests of all it pulls.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'

import { Containerd, VERSION_2 } from '../lib/containerd.mjs'
import { newFolder } from '../lib/folders.mjs'
import { buildMirrorTools, mirrorTools, whyNoMirrorTools } from '../lib/mirror-tools.mjs'
import { run } from '../lib/program.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const REGISTRY = 'registry.example'
const POLICY = JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] })
/** With this setting, containerd 2 fetches several pieces of a layer at once. */
const PIECE_BYTES = 8 * MIB
const PIECES = `[plugins."io.containerd.transfer.v1.local"]\nconcurrent_layer_fetch_buffer = ${PIECE_BYTES}`
/** How often the registry may send the bytes of a blob. */
const COPIES_MAX = 1.1
/** A slice of the suite names the clients that a package installs, such as "skopeo"; then nothing is built. */
const CHOSEN = process.env.MIRROR_CLIENTS?.split(',')
const isChosen = (/** @type {[string, unknown]} */ [name]) => !CHOSEN || CHOSEN.includes(name)

const folder = newFolder()
let registry
/** Sits between the mirror and the registry, so that the registry can be switched off, and its bytes are counted. */
let upstream
let mirror
let images = 0

before(async () => {
  if (!CHOSEN && !whyNoMirrorTools) await buildMirrorTools()
  registry = await Registry.start(path.join(folder, 'registry'))
  upstream = await FaultyRegistry.start(registry)
  mirror = await startMirror(path.join(folder, 'store'), ['--upstream', `${REGISTRY}=${upstream.url}`, '--offline-ok', '--tag-ttl', '0s'])
  writeFileSync(path.join(folder, 'policy.json'), POLICY)
  writeFileSync(
    path.join(folder, 'registries.conf'),
    `[[registry]]\nprefix = "${REGISTRY}"\nlocation = "${REGISTRY}"\n[[registry.mirror]]\nlocation = "127.0.0.1:${mirror.port}"\ninsecure = true\n`,
  )
  // It tells the mirror the `hostname` of the registry, so that is its name.
  const hosts = { [REGISTRY]: { hostname: REGISTRY, tls: 'disabled', mirrors: [mirrorHost()] }, [mirrorHost()]: { tls: 'disabled' } }
  writeFileSync(path.join(folder, 'regctl.json'), JSON.stringify({ hosts }))
})

after(async () => {
  await mirror?.stop()
  await upstream?.stop()
  await registry?.stop()
})

beforeEach(() => {
  upstream.isDown = false
})

const mirrorHost = () => `127.0.0.1:${mirror.port}`

/** Pushes an image of its own for a test; returns its name, and the image. */
async function newImage(layers = [3 * MIB, 100_000, 10]) {
  const repository = `team/app-${images++}`
  const content = makeImage(layers)
  await push(registry, repository, 'v1', content)
  return { name: `${REGISTRY}/${repository}:v1`, repository, content }
}

const crane = (...args) => run(mirrorTools.crane, ['--insecure', ...args])

const clients = {
  skopeo: async ({ name }) => {
    const conf = path.join(folder, 'registries.conf')
    await run('skopeo', ['--insecure-policy', `--registries-conf=${conf}`, 'copy', `docker://${name}`, `oci:${newFolder()}:v1`])
  },
  buildah: async ({ name }) => {
    const work = newFolder()
    const own = ['--root', `${work}/root`, '--runroot', `${work}/run`, '--storage-driver', 'vfs']
    const files = ['--registries-conf', path.join(folder, 'registries.conf')]
    await run('buildah', [...own, ...files, 'pull', '--signature-policy', path.join(folder, 'policy.json'), name])
  },
  podman: async ({ name }) => {
    const work = newFolder()
    const own = ['--root', `${work}/root`, '--runroot', `${work}/run`, '--storage-driver', 'vfs', '--cgroup-manager', 'cgroupfs']
    const env = { ...process.env, CONTAINERS_REGISTRIES_CONF: path.join(folder, 'registries.conf') }
    await run('podman', [...own, 'pull', '--signature-policy', path.join(folder, 'policy.json'), name], { env })
  },
  // crane knows no mirrors, so its image has the address of the mirror.
  crane: async ({ repository }) => {
    const image = `${mirrorHost()}/${repository}:v1`
    const tarball = path.join(newFolder(), 'image.tar')
    await crane('validate', '--remote', image)
    await crane('pull', image, tarball)
    await crane('validate', '--tarball', tarball)
  },
  regctl: async ({ name }) => {
    const archive = path.join(newFolder(), 'image.tar')
    const env = { ...process.env, REGCTL_CONFIG: path.join(folder, 'regctl.json') }
    await run(mirrorTools.regctl, ['image', 'export', name, archive], { env })
    await crane('validate', '--tarball', archive)
  },
}

/** Pulls an image with a client through the mirror, and again while the registry is down. */
async function pullTwice(pull) {
  const image = await newImage()
  await pull(image)
  upstream.isDown = true
  await pull(image)
}

for (const [client, pull] of Object.entries(clients).filter(isChosen)) {
  describe(client, { skip: client in mirrorTools && whyNoMirrorTools }, () => {
    it('pulls through the mirror, and again while the registry is down', () => pullTwice(pull))

    it('cannot pull an image that the mirror has never seen while the registry is down', async () => {
      const image = await newImage([10])
      upstream.isDown = true
      await assert.rejects(pull(image))
    })
  })
}

/**
 * containerd in its versions, with the options and settings that change how it pulls.
 * @type {Record<string, { programs?: typeof VERSION_2, options?: string[], settings?: string }>}
 */
const engines = {
  containerd: {},
  'containerd 2': { programs: VERSION_2 },
  'containerd 2 without its transfer service': { programs: VERSION_2, options: ['--local'] },
  'containerd 2 with several pieces of a layer at once': { programs: VERSION_2, settings: PIECES },
}

for (const [engine, { programs, settings, options }] of Object.entries(engines).filter(isChosen)) {
  describe(engine, { skip: programs === VERSION_2 && whyNoMirrorTools }, () => {
    let containerd
    /** Sits between containerd and the mirror, and keeps the requests of containerd. */
    let seen
    const pull = ({ name }) => containerd.pull(name, { options })
    const mirrors = () => [{ url: seen.url, capabilities: ['pull', 'resolve'] }]

    before(async () => {
      seen = await FaultyRegistry.start(mirror)
      containerd = await Containerd.start(path.join(folder, engine.replaceAll(' ', '-')), { programs, settings })
      containerd.useMirrors(REGISTRY, 'http://127.0.0.1:1', mirrors())
    })

    after(async () => {
      await containerd?.stop()
      await seen?.stop()
    })

    it('pulls through the mirror, and again while the registry is down', () =>
      pullTwice(async (image) => {
        await pull(image)
        await containerd.remove(image.name)
      }))

    it('pulls from the registry itself when the mirror does not have it', async () => {
      const { name } = await newImage([MIB])
      containerd.useMirrors('direct.example', registry.url, mirrors())
      await pull({ name: name.replace(REGISTRY, 'direct.example') })
    })

    it('pulls an image of 120 small layers', async () => {
      await pull(await newImage(Array.from({ length: 120 }, () => 200)))
    })

    it('reads each byte of a large layer from the registry once', async () => {
      const { name, content } = await newImage([7 * PIECE_BYTES + 5, 1000])
      seen.requests.length = 0
      await pull({ name })
      for (const layer of content.layers) {
        const copies = upstream.copiesOf(layer)
        assert.ok(copies >= 1 && copies <= COPIES_MAX, `the registry sent a layer ${copies} times`)
      }
      const large = seen.requests.filter(({ method, url }) => method === 'GET' && url.includes(digestOf(content.layers[0])))
      const ranges = large.map(({ headers }) => headers.range).filter(Boolean)
      if (settings !== PIECES) return assert.deepEqual(ranges, [])
      // It closes the connection after a piece, and all but the first are asked for by their start.
      const starts = Array.from({ length: 8 }, (_, piece) => `bytes=${piece * PIECE_BYTES}-`)
      assert.deepEqual(ranges.sort(), starts.sort())
      assert.ok(seen.requests.some(({ url, headers }) => url.includes('/manifests/') && headers.range === 'bytes=0-'))
    })
  })
}
