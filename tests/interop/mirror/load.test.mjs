// Many pulls at once, and images of very many layers.

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { Containerd, VERSION_2 } from '../lib/containerd.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { PullError, pullImage } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { buildMirrorTools, mirrorTools, whyNoMirrorTools } from '../lib/mirror-tools.mjs'
import { run } from '../lib/program.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const REGISTRY = 'registry.example'
const PULLS = 100
const PULL_MS_MAX = 60_000
const LAYERS = 1_000

const folder = newFolder()
let registry
/** It counts what leaves the registry. */
let upstream
let mirror

before(async () => {
  if (!whyNoMirrorTools) await buildMirrorTools()
  registry = await Registry.start(path.join(folder, 'registry'))
  upstream = await FaultyRegistry.start(registry)
  mirror = await startMirror(path.join(folder, 'store'), ['--upstream', `${REGISTRY}=${upstream.url}`])
})

after(async () => {
  await mirror?.stop()
  await upstream?.stop()
  await registry?.stop()
})

const requestsFor = (bytes) => upstream.requests.filter(({ method, url }) => method === 'GET' && url.includes(digestOf(bytes))).length

/** Asserts that each blob left the registry once. */
function assertOneCopy(image) {
  for (const bytes of image.blobs) {
    assert.equal(upstream.copiesOf(bytes), 1, `copies of a blob of ${bytes.length} bytes`)
    assert.equal(requestsFor(bytes), 1, `requests for a blob of ${bytes.length} bytes`)
  }
}

/** Pulls an image like an engine that tries again: on a busy machine the first byte may take longer than the mirror waits. */
function pullPersistently(image) {
  const pulled = () => pullImage(mirror.port, 'team/app', 'v1', image).then(() => true)
  const isUnpulled = (error) => {
    if (!(error instanceof PullError && error.status === 404)) throw error
    return false
  }
  return waitUntil(() => pulled().catch(isUnpulled), 'the image is pulled', PULL_MS_MAX)
}

describe(`${PULLS} pulls of one image at once`, () => {
  it('read each blob from the registry once', async () => {
    const image = makeImage([2 * MIB, MIB, 1000])
    await push(registry, 'team/app', 'v1', image)
    await Promise.all(Array.from({ length: PULLS }, () => pullPersistently(image)))
    assertOneCopy(image)
  })
})

describe(`an image of ${LAYERS} small layers`, () => {
  const image = makeImage(Array.from({ length: LAYERS }, () => 200))
  const name = 'team/layers'

  before(() => push(registry, name, 'v1', image))

  it('leaves the registry once', async () => {
    await pullImage(mirror.port, name, 'v1', image, { connections: 20 })
    assertOneCopy(image)
  })

  // The kernel mounts no image of so many layers, so it is only fetched.
  for (const [engine, programs] of Object.entries({ containerd: undefined, 'containerd 2': VERSION_2 })) {
    it(`is fetched by ${engine}`, { skip: programs && whyNoMirrorTools }, async () => {
      const containerd = await Containerd.start(path.join(folder, engine.replace(' ', '-')), { programs })
      try {
        containerd.useMirrors(REGISTRY, 'http://127.0.0.1:1', [{ url: mirror.http(''), capabilities: ['pull', 'resolve'] }])
        await containerd.fetch(`${REGISTRY}/${name}:v1`)
        const { stdout } = await containerd.ctr('content', 'ls', '--quiet')
        const stored = new Set(stdout.trim().split('\n'))
        for (const bytes of image.blobs) assert.ok(stored.has(digestOf(bytes)))
      } finally {
        await containerd.stop()
      }
    })
  }

  it('is valid for crane', { skip: whyNoMirrorTools }, async () => {
    await run(mirrorTools.crane, ['validate', '--insecure', '--remote', `127.0.0.1:${mirror.port}/${name}:v1`])
    assertOneCopy(image)
  })
})
