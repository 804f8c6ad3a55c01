// A mirror whose registry, disk or process fails.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'

import { waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { requestExactly } from '../lib/exact-request.mjs'
import { newFolder } from '../lib/folders.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
/** A mirror that holds a client this long hangs. Its own timeouts are shorter, and its answer or its log names the one that has passed. */
const HANG_MS = 120_000
/** Requests for a blob that the mirror sends after its registry has failed, at the most: its connections try again a few times. */
const TRIES_MAX = 12

const folder = newFolder()
let registry
let faulty
let mirror
let image
let stores = 0

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
})

after(() => registry?.stop())

beforeEach(async () => {
  faulty = await FaultyRegistry.start(registry)
  image = makeImage([6 * MIB])
  await push(registry, 'app', 'v1', image)
})

afterEach(async () => {
  if (mirror?.isRunning) await mirror.stop()
  mirror = undefined
  await faulty.stop()
})

const newStore = () => path.join(folder, `store-${stores++}`)

async function start(store = newStore(), args = []) {
  mirror = await startMirror(store, ['--upstream', faulty.url, ...args])
}

/** A manifest with one layer, which is its configuration too. */
function manifestOf(layer) {
  const descriptor = { mediaType: 'application/octet-stream', digest: digestOf(layer), size: layer.length }
  return Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config: descriptor, layers: [descriptor] }))
}

/** Reads a path to its end, or until the connection is cut. */
const read = (target, headers = {}) => withTimeout(requestExactly(mirror, target, { headers }), `the mirror answers ${target}`, HANG_MS)
const manifest = (tag = 'v1') => read(`/v2/app/manifests/${tag}`)
const layer = (headers, one = image) => read(`/v2/app/blobs/${digestOf(one.layers[0])}`, headers)
const isBlob = (request) => request.url.includes('/blobs/')
const messageOf = ({ bytes }) => JSON.parse(bytes).errors[0].message

describe('a registry that fails', () => {
  it('is asked for the rest of a blob when its body breaks off', async () => {
    await start()
    let sent = 0
    let cuts = 0
    faulty.spoil = (request, chunk) => {
      if (!isBlob(request) || cuts === 2) return chunk
      sent += chunk.length
      if (sent < 1.5 * MIB) return chunk
      sent = 0
      cuts++
      return null
    }
    await manifest()
    const { status, bytes, isCut } = await layer()
    assert.deepEqual([status, isCut, cuts], [200, false, 2])
    assert.ok(bytes.equals(image.layers[0]))
    const ranges = faulty.requests.filter((request) => isBlob(request) && request.headers.range)
    assert.ok(ranges.length >= 1, 'the mirror asks for ranges')
  })

  it('cuts the response when it stays down in the middle, and then answers 404', async () => {
    await start()
    let sent = 0
    faulty.spoil = (request, chunk) => {
      if (!isBlob(request)) return chunk
      sent += chunk.length
      return sent < 2.5 * MIB ? chunk : null
    }
    await manifest()
    let tries = 0
    faulty.answer = (request, response) => {
      if (!isBlob(request) || sent < 2.5 * MIB) return false
      tries++
      response.destroy()
      return true
    }
    const first = await layer()
    assert.deepEqual([first.status, first.isCut], [200, true])
    assert.match(mirror.stderr, /cut a response.*cannot reach/)
    assert.ok(tries > 0 && tries <= TRIES_MAX, `${tries} requests while it is down`)
    assert.ok(image.layers[0].subarray(0, first.bytes.length).equals(first.bytes), 'no wrong byte was sent')
    const rest = await layer({ range: `bytes=${first.bytes.length}-` })
    assert.ok([404, 502].includes(rest.status), `status ${rest.status}`)
  })

  it('does not hold a client that waits for the first byte', async () => {
    await start()
    await manifest()
    faulty.answer = (request) => isBlob(request)
    const answer = await layer()
    assert.equal(answer.status, 404)
    assert.match(messageOf(answer), /sent no byte within 2s/)
  })

  it('does not hold a client when a body stalls', async () => {
    await start()
    await manifest()
    let isStalled = false
    let sent = 0
    faulty.spoil = (request, chunk) => {
      if (!isBlob(request)) return chunk
      sent += chunk.length
      isStalled ||= sent > 2.5 * MIB
      return isStalled ? Buffer.alloc(0) : chunk
    }
    const { status, isCut } = await layer()
    assert.deepEqual([status, isCut], [200, true])
    // The mirror waits longer for its registry than a client waits for the mirror.
    assert.match(mirror.stderr, /cut a response.*no further byte arrived in time/)
  })

  it('passes on that the registry limits requests', async () => {
    await start()
    faulty.answer = (_request, response) => {
      response.writeHead(429, { 'retry-after': '7' }).end()
      return true
    }
    const { status, headers, bytes } = await manifest()
    assert.deepEqual([status, headers['retry-after']], [429, '7'])
    assert.equal(JSON.parse(bytes).errors[0].code, 'TOOMANYREQUESTS')
  })

  it('keeps no blob that does not have its digest', async () => {
    const store = newStore()
    await start(store)
    await manifest()
    let at = 0
    faulty.spoil = (request, chunk) => {
      if (!isBlob(request)) return chunk
      at += chunk.length
      if (at < 3 * MIB || at - chunk.length > 3 * MIB) return chunk
      const changed = Buffer.from(chunk)
      changed[0] ^= 1
      return changed
    }
    const wrong = await layer()
    assert.ok(wrong.isCut, 'no whole blob with wrong bytes is sent')
    faulty.spoil = (_request, chunk) => chunk
    await mirror.stop()
    await start(store)
    const right = await layer()
    assert.ok(right.bytes.equals(image.layers[0]))
  })

  it('refuses a manifest of 100 MB, and one that is not what its digest says', async () => {
    await start()
    const before = mirror.residentBytes()
    faulty.answer = (request, response) => {
      if (!request.url.includes('/manifests/')) return false
      response.writeHead(200, { 'content-type': MANIFEST })
      const piece = Buffer.alloc(MIB, ' ')
      let left = 100
      const write = () => {
        while (left-- > 0) if (!response.write(piece)) return void response.once('drain', write)
        response.end()
      }
      if (request.method === 'HEAD') response.end()
      else write()
      return true
    }
    assert.equal((await manifest()).status, 502)
    assert.equal((await manifest(image.digest)).status, 502)
    assert.ok(mirror.residentBytes() - before < 40 * MIB)
    faulty.answer = (request, response) => {
      if (!request.url.includes('/manifests/')) return false
      response.writeHead(200, { 'content-type': MANIFEST }).end('{}')
      return true
    }
    assert.equal((await manifest(image.digest)).status, 502)
  })

  it('does not follow a redirect to this machine, unless the settings allow it', async () => {
    const redirect = (request, response) => {
      if (!isBlob(request) || request.method === 'HEAD') return false
      response.writeHead(307, { location: `${registry.url}${request.url}` }).end()
      return true
    }
    await start()
    await manifest()
    faulty.answer = redirect
    const refused = await layer()
    assert.equal(refused.status, 502)
    assert.match(JSON.parse(refused.bytes).errors[0].message, /--allow-redirect/)
    await mirror.stop()
    await start(newStore(), ['--allow-redirect', '127.0.0.0/8'])
    await manifest()
    assert.ok((await layer()).bytes.equals(image.layers[0]))
  })

  it('never unpacks what is compressed', async () => {
    const bomb = gzipSync(Buffer.alloc(512 * MIB))
    const compressed = { ...image, layers: [bomb], blobs: [bomb] }
    await push(registry, 'app', 'bomb', { ...compressed, manifest: manifestOf(bomb) })
    await start()
    const before = mirror.residentBytes()
    faulty.answer = (request, response) => {
      if (!request.url.includes('/manifests/v1')) return false
      response.writeHead(200, { 'content-type': MANIFEST, 'content-encoding': 'gzip', 'content-length': bomb.length })
      response.end(request.method === 'HEAD' ? undefined : bomb)
      return true
    }
    assert.equal((await manifest()).status, 502)
    assert.equal((await manifest('bomb')).status, 200)
    assert.ok((await layer({}, compressed)).bytes.equals(bomb))
    assert.ok(mirror.residentBytes() - before < 40 * MIB)
  })

  it('serves an index that names itself like any other', async () => {
    await start()
    const digest = digestOf('self')
    const index = Buffer.from(JSON.stringify({ schemaVersion: 2, manifests: [{ digest, size: 1, mediaType: 'x' }] }))
    faulty.answer = (request, response) => {
      if (!request.url.endsWith('/manifests/self')) return false
      const type = { 'content-type': 'application/vnd.oci.image.index.v1+json', 'docker-content-digest': digestOf(index) }
      response.writeHead(200, type).end(request.method === 'HEAD' ? undefined : index)
      return true
    }
    assert.ok((await manifest('self')).bytes.equals(index))
  })
})

describe('a registry that is down', () => {
  it('is replaced by the store if the settings say so', async () => {
    const store = newStore()
    await start(store, ['--tag-ttl', '0s', '--access-ttl', '0s', '--offline-ok'])
    assert.equal((await manifest()).status, 200)
    assert.equal((await layer()).status, 200)
    faulty.answer = (_request, response) => {
      response.destroy()
      return true
    }
    const stored = await manifest()
    assert.deepEqual([stored.status, stored.headers['watchfire-source']], [200, 'store'])
    assert.ok((await layer()).bytes.equals(image.layers[0]))
    assert.match(mirror.stderr, /while the registry is down/)
    await mirror.stop()

    await start(store, ['--tag-ttl', '0s', '--access-ttl', '0s'])
    assert.equal((await manifest()).status, 502)
    assert.equal((await layer()).status, 502)
  })
})

describe('a registry that never answers', () => {
  it('is replaced by the store if the settings say so', async () => {
    await start(newStore(), ['--tag-ttl', '0s', '--access-ttl', '0s', '--offline-ok'])
    await manifest()
    assert.equal((await layer()).status, 200)
    faulty.answer = () => true
    const stored = await manifest()
    assert.deepEqual([stored.status, stored.headers['watchfire-source']], [200, 'store'])
    const blob = await layer()
    assert.deepEqual([blob.status, blob.headers['watchfire-source']], [200, 'store'])
    assert.ok(blob.bytes.equals(image.layers[0]))
  })

  it('does not hold a client that asks for a manifest or a list', async () => {
    await start()
    faulty.answer = () => true
    for (const target of [
      '/v2/app/manifests/v1',
      `/v2/app/manifests/${image.digest}`,
      '/v2/app/tags/list',
      `/v2/app/referrers/${image.digest}`,
    ]) {
      const answer = await read(target)
      assert.equal(answer.status, 502, target)
      assert.match(messageOf(answer), /no answer within 4s/, target)
    }
  })
})

describe('a mirror that fails', () => {
  it('goes on with a blob after it was killed', async () => {
    const store = newStore()
    await start(store)
    await manifest()
    let sent = 0
    faulty.spoil = (request, chunk) => {
      if (!isBlob(request)) return chunk
      sent += chunk.length
      return sent < 4 * MIB ? chunk : Buffer.alloc(0)
    }
    const reading = layer().catch(() => undefined)
    await waitUntil(() => sent >= 4 * MIB, 'the mirror has four of six megabytes')
    await waitUntil(async () => (await layer({ range: `bytes=0-${3 * MIB - 1}` })).status === 206, 'three blocks are stored')
    process.kill(mirror.pid, 'SIGKILL')
    await reading
    await waitUntil(() => !mirror.isRunning, 'the mirror has ended')

    faulty.requests.length = 0
    let resumed = 0
    faulty.spoil = (request, chunk) => {
      if (isBlob(request)) resumed += chunk.length
      return chunk
    }
    await start(store)
    assert.ok((await layer()).bytes.equals(image.layers[0]))
    assert.ok(resumed < 4 * MIB, `${resumed} bytes were fetched again`)
  })

  it('sends no damaged byte of its disk, and fetches the blob again', async () => {
    const store = newStore()
    await start(store)
    await manifest()
    assert.ok((await layer()).bytes.equals(image.layers[0]))
    const hex = digestOf(image.layers[0]).split(':')[1]
    const file = openSync(path.join(store, 'blobs', 'sha256', hex.slice(0, 2), hex), 'r+')
    writeSync(file, 'damage', 3 * MIB)
    closeSync(file)
    const damaged = await layer()
    assert.ok(damaged.isCut)
    assert.ok(image.layers[0].subarray(0, damaged.bytes.length).equals(damaged.bytes))
    assert.ok((await layer()).bytes.equals(image.layers[0]))
    assert.match(mirror.stderr, /a stored blob is damaged/)
  })

  it('sends its clients to the registry when its disk is full, and goes on with what fits', async (t) => {
    const store = newStore()
    mkdirSync(store)
    const mount = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
    const within = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', mount, store]
    if (spawnSync(within[0], [...within.slice(1), 'true']).status !== 0) {
      return t.skip('this machine does not allow mounting a small file system')
    }
    mirror = await startMirror(store, ['--upstream', faulty.url], { within })
    const small = makeImage([1000])
    await push(registry, 'app', 'small', small)
    await manifest()
    const answer = await layer()
    assert.ok(answer.status === 404 || answer.isCut, `status ${answer.status}`)
    const again = await layer()
    assert.equal(again.status, 404)
    assert.match(mirror.stderr, /the disk of the store is full/)
    await manifest('small')
    assert.ok((await layer({}, small)).bytes.equals(small.layers[0]))
  })

  it('sends its clients to the registry when a blob does not fit', async () => {
    await start(newStore(), ['--store-bytes-max', String(5 * MIB)])
    await manifest()
    const { status, bytes } = await layer()
    assert.equal(status, 404)
    assert.match(JSON.parse(bytes).errors[0].message, /--store-bytes-max/)
  })
})
