// Unmodified container tools pull through the mirror. Each verifies the digests of all it pulls.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { promisify } from 'node:util'

import { Containerd } from '../lib/containerd.mjs'
import { FaultyRegistry, Registry, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'

const run = promisify(execFile)
const MIB = 1 << 20
const REGISTRY = 'registry.example'
const POLICY = JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] })

let folder
let registry
/** Sits between the mirror and the registry, so that the registry can be switched off. */
let upstream
let mirror
let images = 0

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'mirror-clients-'))
  registry = await Registry.start(path.join(folder, 'registry'))
  upstream = await FaultyRegistry.start(registry)
  mirror = await startMirror(path.join(folder, 'store'), ['--upstream', `${REGISTRY}=${upstream.url}`, '--offline-ok', '--tag-ttl', '0s'])
  writeFileSync(path.join(folder, 'policy.json'), POLICY)
  writeFileSync(
    path.join(folder, 'registries.conf'),
    `[[registry]]\nprefix = "${REGISTRY}"\nlocation = "${REGISTRY}"\n[[registry.mirror]]\nlocation = "127.0.0.1:${mirror.port}"\ninsecure = true\n`,
  )
})

after(async () => {
  await mirror?.stop()
  await upstream?.stop()
  await registry?.stop()
  rmSync(folder, { recursive: true, force: true })
})

beforeEach(() => {
  upstream.answer = () => false
})

/** Pushes an image of its own for a test; returns its name. */
async function newImage(layers = [3 * MIB, 100_000, 10]) {
  const name = `team/app-${images++}`
  await push(registry, name, 'v1', makeImage(layers))
  return `${REGISTRY}/${name}:v1`
}

function switchOff() {
  upstream.answer = (_request, response) => {
    response.destroy()
    return true
  }
}

const newFolder = () => {
  const name = path.join(folder, `work-${images++}`)
  mkdirSync(name)
  return name
}

const clients = {
  skopeo: async (image) => {
    const conf = path.join(folder, 'registries.conf')
    await run('skopeo', ['--insecure-policy', `--registries-conf=${conf}`, 'copy', `docker://${image}`, `oci:${newFolder()}:v1`])
  },
  buildah: async (image) => {
    const work = newFolder()
    const own = ['--root', `${work}/root`, '--runroot', `${work}/run`, '--storage-driver', 'vfs']
    const files = ['--registries-conf', path.join(folder, 'registries.conf')]
    await run('buildah', [...own, ...files, 'pull', '--signature-policy', path.join(folder, 'policy.json'), image])
  },
  podman: async (image) => {
    const work = newFolder()
    const own = ['--root', `${work}/root`, '--runroot', `${work}/run`, '--storage-driver', 'vfs', '--cgroup-manager', 'cgroupfs']
    const env = { ...process.env, CONTAINERS_REGISTRIES_CONF: path.join(folder, 'registries.conf') }
    await run('podman', [...own, 'pull', '--signature-policy', path.join(folder, 'policy.json'), image], { env })
  },
}

for (const [name, pull] of Object.entries(clients)) {
  describe(name, () => {
    it('pulls through the mirror, and again while the registry is down', async () => {
      const image = await newImage()
      await pull(image)
      switchOff()
      await pull(image)
    })

    it('cannot pull an image that the mirror has never seen while the registry is down', async () => {
      const image = await newImage([10])
      switchOff()
      await assert.rejects(pull(image))
    })
  })
}

describe('containerd', () => {
  let containerd

  before(async () => {
    containerd = await Containerd.start(path.join(folder, 'containerd'))
    const url = `http://127.0.0.1:${mirror.port}`
    containerd.useMirrors(REGISTRY, 'http://127.0.0.1:1', [{ url, capabilities: ['pull', 'resolve'] }])
  })

  after(() => containerd?.stop())

  it('pulls through the mirror, and again while the registry is down', async () => {
    const image = await newImage()
    await containerd.pull(image)
    await containerd.remove(image)
    switchOff()
    await containerd.pull(image)
  })

  it('pulls from the registry itself when the mirror does not have it', async () => {
    const name = `direct.example/team/app-${images++}:v1`
    await push(registry, name.split('/').slice(1).join('/').split(':')[0], 'v1', makeImage([MIB]))
    const url = `http://127.0.0.1:${mirror.port}`
    containerd.useMirrors('direct.example', registry.url, [{ url, capabilities: ['pull', 'resolve'] }])
    await containerd.pull(name)
  })

  it('pulls an image of 120 small layers', { timeout: 120_000 }, async () => {
    const image = await newImage(Array.from({ length: 120 }, () => 200))
    await containerd.pull(image)
  })
})
