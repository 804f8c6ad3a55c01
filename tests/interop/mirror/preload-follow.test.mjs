// Mirrors of two regions get an image when it is pushed, before anybody pulls it.

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { pullImage } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { FaultyRegistry, Registry, makeImage, push } from '../lib/registry.mjs'
import { binary, start, startMirror } from '../lib/server.mjs'

const REGISTRY = 'registry.example:8443'

const folder = newFolder()
let registry
let faulty
let mirrors = []

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
  faulty = await FaultyRegistry.start(registry)
  const args = ['--upstream', `${REGISTRY}=${faulty.url}`]
  mirrors = await Promise.all(['eu', 'us'].map((name) => startMirror(path.join(folder, name), args)))
})

after(async () => {
  await Promise.all(mirrors.map((mirror) => mirror.stop()))
  await faulty?.stop()
  await registry?.stop()
})

const pushNew = async (layers) => {
  const image = makeImage(layers)
  await push(registry, 'team/app', 'v1', image)
  return image
}

it('a push moves the tag, and the image is in the stores of the mirrors before a pull', { timeout: 60_000 }, async () => {
  const first = await pushNew([100_000])
  const mirrorOptions = mirrors.flatMap((mirror) => ['--mirror', mirror.http('')])
  const options = ['--follow', '--interval', '1s', '--json', ...mirrorOptions]
  // The tag that does not exist delays no other.
  const images = [`${REGISTRY}/team/none:v1`, `${REGISTRY}/team/app:v1`]
  const follower = await start(binary('watchfire'), ['mirror', 'preload', ...options, ...images], /digest/)
  const lines = () => follower.lines.map((line) => JSON.parse(line))
  const loaded = (image) => lines().filter(({ digest }) => digest === image.digest)
  try {
    await waitUntil(() => loaded(first).length === 2, 'both mirrors have the first image')
    assert.deepEqual([...new Set(loaded(first).map(({ before }) => before))], [null])

    const second = await pushNew([3_000_000, 1000])
    await waitUntil(() => loaded(second).length === 2, 'both mirrors have the second image')
    for (const { image, before, loaded_blobs: blobs } of loaded(second)) {
      assert.deepEqual([image, before, blobs], [`${REGISTRY}/team/app:v1`, first.digest, second.blobs.length])
    }
    const requests = second.blobs.map((blob) => faulty.requestsFor(blob).length)
    for (const { port } of mirrors) {
      const { sources } = await pullImage(port, 'team/app', 'v1', second)
      assert.ok(sources.has('store'))
    }
    assert.deepEqual(
      second.blobs.map((blob) => faulty.requestsFor(blob).length),
      requests,
    )

    const limited = []
    faulty.answer = (_request, response) => {
      limited.push(performance.now())
      return response.writeHead(429, { 'retry-after': '3' }).end()
    }
    await waitUntil(() => limited.length > 0, 'the registry limits requests')
    const limitedAt = performance.now()
    // Each tag may have been asked for at each mirror before the limit was heard.
    await waitUntil(() => performance.now() > limitedAt + 2500, 'nearly the pause is over')
    assert.ok(limited.filter((at) => at > limitedAt + 1000).length === 0, `${limited.length} requests within the pause`)
    faulty.answer = () => false
    const third = await pushNew([1000])
    await waitUntil(() => loaded(third).length === 2, 'both mirrors have the third image')
    const errors = lines().filter(({ error }) => error)
    assert.ok(errors.some(({ image, error }) => image.endsWith('none:v1') && error.includes('404')))
    assert.ok(errors.length <= 8, 'an error that lasts is told once')
  } finally {
    process.kill(follower.pid, 'SIGINT')
    await follower.stop()
  }
})
