// containerd pulls through a mirror whose registry fails, and falls back to the registry itself. In the middle of a blob,
// containerd forgives a response that is cut, but neither a wrong byte nor a long silence.

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'

import { Containerd, VERSION_2 } from '../lib/containerd.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { buildMirrorTools, whyNoMirrorTools } from '../lib/mirror-tools.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const REGISTRY = 'registry.example'
const LAYERS = [6 * MIB, 2 * MIB, 1000]
/** Where the registry ends each body. */
const CUT_BYTES = 400_000
/**
 * The longest pull while the registry never answers the mirror, which waits four seconds twice, and two seconds twice. The
 * rest is for a busy machine.
 */
const PULL_MS_MAX = 30_000

const folder = newFolder()
let registry
/** The server that the mirror uses as its registry. */
let faulty
let mirror
let image
let names = 0

before(async () => {
  if (!whyNoMirrorTools) await buildMirrorTools()
  registry = await Registry.start(path.join(folder, 'registry'))
})

after(() => registry?.stop())

beforeEach(async () => {
  faulty = await FaultyRegistry.start(registry)
  mirror = await startMirror(path.join(folder, `store-${names++}`), ['--upstream', `${REGISTRY}=${faulty.url}`])
  image = { repository: `team/app-${names++}`, content: makeImage(LAYERS) }
  image.name = `${REGISTRY}/${image.repository}:v1`
  await push(registry, image.repository, 'v1', image.content)
})

afterEach(async () => {
  await mirror.stop()
  await faulty.stop()
})

const isBlob = ({ url }) => url.includes('/blobs/')

/** Every request of the mirror gets this status. */
const answerAll = (status) => (_request, response) => {
  response.writeHead(status).end()
  return true
}

for (const [engine, programs] of Object.entries({ containerd: undefined, 'containerd 2': VERSION_2 })) {
  describe(engine, { skip: programs && whyNoMirrorTools }, () => {
    let containerd

    before(async () => {
      containerd = await Containerd.start(path.join(folder, engine.replace(' ', '-')), { programs })
    })

    after(() => containerd?.stop())

    /** Pulls the image; returns how long it took. `direct` is the address of the registry itself. */
    async function pull({ url = mirror.http(''), direct = registry.url } = {}) {
      containerd.useMirrors(REGISTRY, direct, [{ url, capabilities: ['pull', 'resolve'] }])
      const startedAt = performance.now()
      await containerd.pull(image.name)
      return performance.now() - startedAt
    }

    it('pulls while no mirror listens', async () => {
      await pull({ url: 'http://127.0.0.1:1' })
    })

    for (const status of [404, 500, 503]) {
      it(`pulls while the registry answers ${status} to the mirror`, async () => {
        faulty.answer = answerAll(status)
        await pull()
        assert.ok(faulty.requests.length > 0, 'the mirror was asked')
      })
    }

    it('pulls while the registry cuts every body that it sends to the mirror', async () => {
      const sent = new Map()
      let cuts = 0
      faulty.spoil = (request, chunk) => {
        if (!isBlob(request)) return chunk
        const bytes = (sent.get(request) ?? 0) + chunk.length
        sent.set(request, bytes)
        if (bytes < CUT_BYTES) return chunk
        cuts++
        return null
      }
      await pull()
      assert.ok(cuts > 0)
    })

    it('never gets a whole blob with wrong bytes, and pulls when the registry sends the right ones', async () => {
      const [layer] = image.content.layers
      faulty.spoil = (request, chunk) => {
        if (!request.url.endsWith(digestOf(layer))) return chunk
        const changed = Buffer.from(chunk)
        changed[0] ^= 1
        return changed
      }
      // It adds the rest of the registry itself to the wrong bytes, and finds another digest.
      await assert.rejects(pull(), /digest|EOF|size/)
      faulty.spoil = (_request, chunk) => chunk
      await waitUntil(
        () =>
          pull({ direct: 'http://127.0.0.1:1' }).then(
            () => true,
            () => false,
          ),
        'the image is pulled',
        PULL_MS_MAX,
      )
    })

    it('does not wait long for a registry that never answers the mirror', async () => {
      faulty.answer = () => true
      const ms = await pull()
      assert.ok(ms < PULL_MS_MAX, `the pull took ${ms} ms`)
    })

    it('does not wait long for a registry that never sends a blob to the mirror', async () => {
      faulty.answer = isBlob
      const ms = await pull()
      assert.ok(ms < PULL_MS_MAX, `the pull took ${ms} ms`)
    })

    it('pulls through the mirror when the registry goes down in the middle of a layer and comes back', async () => {
      let sent = 0
      faulty.spoil = (request, chunk) => {
        if (!isBlob(request)) return chunk
        sent += chunk.length
        if (sent > 2.5 * MIB && faulty.refused === 0) faulty.isDown = true
        return chunk
      }
      const pulling = pull({ direct: 'http://127.0.0.1:1' })
      await Promise.race([pulling, waitUntil(() => faulty.refused > 0, 'the mirror asks the registry again', PULL_MS_MAX)])
      faulty.isDown = false
      await pulling
      assert.ok(faulty.refused > 0)
    })
  })
}
