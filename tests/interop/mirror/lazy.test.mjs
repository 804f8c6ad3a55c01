// Containers that start before their image has arrived: stock containerd 2 with the stargz snapshotter, through the mirror.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'

import { Containerd, VERSION_2 } from '../lib/containerd.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { Fleet } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { buildLazyTools, mirrorTools, whyNoLazyTools } from '../lib/mirror-tools.mjs'
import { Program, run } from '../lib/program.mjs'
import { FaultyRegistry, Registry, digestOf, ociImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const REGISTRY = 'registry.example'
/** Files of the image, of 1 MiB each. The application reads each twentieth at its start. */
const FILES = 100
const READ_EACH = 20
/** The rate of the registry for all hosts together. The whole image takes 13 s. */
const BYTES_PER_SECOND = 8 * MIB
/** How often the registry may send the bytes of the layer. */
const COPIES_MAX = 1.05
/** Longer than a start, its quiet time, and the rest of the image take on a busy machine. */
const WHOLE_MS = 120_000

const folder = newFolder()
let registry
let upstream
let fleet
/** Ends what a test has started, the last first. */
const ends = []
let image
let names = 0

const inRoot = (name) => path.join(folder, 'rootfs', name)
/** The files of the image, in the order of its layer. */
const inTar = ['application']

/** Makes an application, the files that it reads, and many more. */
function makeFiles() {
  for (const name of ['start', 'rest']) {
    mkdirSync(inRoot(name), { recursive: true })
    inTar.push(name)
  }
  copyFileSync(mirrorTools.application, inRoot('application'))
  // In this order, so that the files of the start are far from each other.
  for (let index = 0; index < FILES; index++) {
    const name = `${index % READ_EACH === 0 ? 'start' : 'rest'}/${index}`
    writeFileSync(inRoot(name), randomBytes(MIB))
    inTar.push(name)
  }
}

/** An image of one layer of eStargz, with the files as they are now. */
async function makeLazyImage() {
  const [tar, layer] = [path.join(folder, 'layer.tar'), path.join(folder, 'layer.esgz')]
  await run('tar', ['--create', '--file', tar, '--directory', inRoot('.'), '--no-recursion', '--owner=0', '--group=0', ...inTar])
  const { stdout } = await run(mirrorTools.stargz, ['convert', tar, layer])
  const [toc, diffId] = stdout.trim().split(' ')
  const annotations = { 'containerd.io/snapshot/stargz/toc.digest': toc }
  return ociImage([{ blob: readFileSync(layer), diffId, annotations }])
}

/** A host with containerd, and with the stargz snapshotter that reads layers from the mirror of that host. */
class LazyHost {
  mirror
  #containerd
  #stargz

  static async start(mirror) {
    const host = new LazyHost()
    host.mirror = mirror
    ends.push(() => host.stop())
    const root = path.join(folder, `engine-${names++}`)
    mkdirSync(root, { recursive: true })
    const socket = path.join(root, 'stargz.sock')
    const config = path.join(root, 'stargz.toml')
    writeFileSync(
      config,
      // Its own fetch of the rest would read what the mirror fetches in any case.
      `no_prometheus = true\nno_background_fetch = true\n[[resolver.host."${REGISTRY}".mirrors]]\nhost = "127.0.0.1:${mirror.port}"\ninsecure = true\n`,
    )
    host.#stargz = new Program(mirrorTools.stargz, ['serve', socket, path.join(root, 'stargz'), config])
    host.#containerd = await Containerd.start(path.join(root, 'containerd'), {
      programs: VERSION_2,
      settings: `[proxy_plugins.stargz]
type = "snapshot"
address = "${socket}"
[proxy_plugins.stargz.exports]
root = "${root}/stargz"
enable_remote_snapshot_annotations = "true"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
platform = "linux"
snapshotter = "overlayfs"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
platform = "linux"
snapshotter = "stargz"`,
    })
    const url = `http://127.0.0.1:${mirror.port}`
    host.#containerd.useMirrors(REGISTRY, 'http://127.0.0.1:1', [{ url, capabilities: ['pull', 'resolve'] }])
    return host
  }

  /** Runs the application, and waits for its first answer. Returns the milliseconds until then, and the answer. */
  async ready(snapshotter = 'stargz') {
    const name = `${REGISTRY}/team/app:v1`
    const [port] = await listeningPorts(1)
    const startedAt = performance.now()
    await this.#containerd.pull(name, { options: ['--snapshotter', snapshotter] })
    const options = ['--detach', '--net-host', '--cgroup', '', '--runtime', mirrorTools.shim, '--snapshotter', snapshotter]
    await this.#containerd.ctr('run', ...options, name, `app-${port}`, '/application', String(port), '/start')
    const answer = async () => {
      const response = await fetch(`http://127.0.0.1:${port}/`).catch(() => null)
      return response?.text()
    }
    const text = await waitUntil(answer, 'the container answers', WHOLE_MS)
    return { ms: performance.now() - startedAt, text }
  }

  async stop() {
    try {
      const { stdout } = await this.#containerd.ctr('containers', 'ls', '--quiet')
      for (const id of stdout.split('\n').filter(Boolean)) {
        await this.#containerd.ctr('tasks', 'kill', '--signal', 'SIGKILL', id)
        await waitUntil(async () => this.#containerd.ctr('tasks', 'rm', id).then(Boolean, () => false), 'the task ends')
        await this.#containerd.ctr('containers', 'rm', id)
      }
      await this.#containerd.ctr('images', 'rm', '--sync', `${REGISTRY}/team/app:v1`)
    } finally {
      await this.#containerd?.stop()
      await this.#stargz.stop()
    }
  }
}

describe('containerd 2 with the stargz snapshotter', { skip: whyNoLazyTools, timeout: 600_000 }, () => {
  before(async () => {
    await buildLazyTools()
    registry = await Registry.start(path.join(folder, 'registry'))
    makeFiles()
    image = await makeLazyImage()
    await push(registry, 'team/app', 'v1', image)
  })

  after(() => registry?.stop())

  afterEach(async () => {
    const failed = []
    for (const end of ends.splice(0).reverse()) await end().catch((error) => failed.push(error))
    if (failed.length > 0) throw failed[0]
  })

  /** Starts a fleet with so many hosts, or one host that is alone, with an engine each. */
  async function startHosts(count) {
    upstream = await FaultyRegistry.start(registry)
    upstream.bytesPerSecond = BYTES_PER_SECOND
    ends.push(upstream.stop.bind(upstream))
    const store = path.join(folder, `fleet-${names++}`)
    const args = ['--upstream', `${REGISTRY}=${upstream.url}`, '--offline-ok']
    if (count > 1) {
      fleet = await Fleet.start(store, count, args)
    } else {
      const mirror = await startMirror(store, args)
      fleet = { hosts: [{ mirror, store }], stop: () => mirror.stop() }
    }
    ends.push(fleet.stop.bind(fleet))
    return Promise.all(fleet.hosts.map(({ mirror }) => LazyHost.start(mirror)))
  }

  const copies = () => upstream.copiesOf(image.layers[0])

  /** Waits until all hosts have the whole image, which left the registry once. */
  async function assertWholeOnce() {
    upstream.bytesPerSecond = Infinity
    await waitUntil(() => fleet.hosts.every((host) => existsSync(layerOf(host))), 'all hosts have the layer', WHOLE_MS)
    assert.ok(copies() <= COPIES_MAX, `the registry sent the layer ${copies().toFixed(3)} times`)
  }

  /** The file of the layer in the store of a host that has it. */
  function layerOf({ store }) {
    const hex = digestOf(image.layers[0]).slice(7)
    return path.join(store, 'blobs', 'sha256', hex.slice(0, 2), hex)
  }

  /** The order of the start that a host keeps. */
  const orderOf = (host) => [...new Uint32Array(new Uint8Array(readFileSync(`${layerOf(host)}.start`)).buffer)]

  const expected = `read ${(FILES / READ_EACH) * MIB} bytes\n`

  it('starts from a quarter of the image, in less than half of the time, and the mirror has all of it in the end', async (t) => {
    const [host] = await startHosts(1)
    const { ms, text } = await host.ready()
    const share = copies()
    assert.equal(text, expected)
    assert.ok(share <= 0.25, `the start needed ${share.toFixed(3)} of the layer`)
    await assertWholeOnce()

    const [other] = await startHosts(1)
    const whole = await other.ready('overlayfs')
    assert.equal(whole.text, expected)
    t.diagnostic(
      `ready after ${ms.toFixed(0)} ms, with ${(100 * share).toFixed(1)} % of the layer; after ${whole.ms.toFixed(0)} ms with all of it`,
    )
    assert.ok(ms < whole.ms / 2, `${ms} ms, and ${whole.ms} ms for a pull of the whole`)
  })

  it('starts on the next hosts with what the first one has, in its order', async (t) => {
    const hosts = await startHosts(3)
    const times = []
    for (const host of hosts) {
      const { ms, text } = await host.ready()
      assert.equal(text, expected)
      times.push(ms.toFixed(0))
      t.diagnostic(`ready after ${ms.toFixed(0)} ms; ${copies().toFixed(3)} copies`)
    }
    await assertWholeOnce()
    const [first, ...others] = fleet.hosts.map(orderOf)
    assert.ok(first.length >= FILES / READ_EACH, `the first host recorded ${first}`)
    for (const order of others) assert.deepEqual(new Set(order), new Set(first))
  })

  it('starts on all hosts together, and the registry sends one copy', async (t) => {
    const hosts = await startHosts(3)
    const ready = await Promise.all(hosts.map((host) => host.ready()))
    t.diagnostic(`ready after ${ready.map(({ ms }) => ms.toFixed(0))} ms; ${copies().toFixed(3)} copies`)
    assert.ok(copies() <= 0.25, `the starts needed ${copies().toFixed(3)} of the layer`)
    await assertWholeOnce()
  })

  it('moves a tenth of a version in which one file changed', async (t) => {
    await startHosts(3)
    upstream.bytesPerSecond = Infinity
    const pull = async (tag, { layers: [layer] }) => {
      const answers = fleet.hosts.map(async ({ mirror }) => {
        const get = (name) => fetch(`http://127.0.0.1:${mirror.port}/v2/team/app/${name}?ns=${REGISTRY}`)
        assert.equal((await get(`manifests/${tag}`)).status, 200)
        const bytes = await (await get(`blobs/${digestOf(layer)}`)).bytes()
        assert.equal(digestOf(Buffer.from(bytes)), digestOf(layer))
      })
      await Promise.all(answers)
    }
    await pull('v1', image)
    writeFileSync(inRoot('rest/50'), randomBytes(MIB + 5_000))
    const next = await makeLazyImage()
    await push(registry, 'team/app', 'v2', next)
    await pull('v2', next)
    const share = upstream.copiesOf(next.layers[0])
    t.diagnostic(`the registry sent ${(100 * share).toFixed(1)} % of the second version`)
    assert.ok(share <= 0.1, `the registry sent ${share.toFixed(3)} of the second version`)
  })
})
