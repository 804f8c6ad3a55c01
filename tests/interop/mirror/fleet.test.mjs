// Mirrors of several hosts pull an image together, and each byte leaves the registry once.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'

import { Fleet, pullImage } from '../lib/fleet.mjs'
import { FaultyRegistry, Registry, makeImage, push } from '../lib/registry.mjs'

const MIB = 1 << 20
/** How often the registry may send the bytes of a blob. */
const COPIES_MAX = 1.05

let folder
let registry
/** It counts the bytes that leave the registry, and can be switched off. */
let upstream
let fleet
let names = 0

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'mirror-fleet-'))
  registry = await Registry.start(path.join(folder, 'registry'))
})

after(async () => {
  await registry?.stop()
  rmSync(folder, { recursive: true, force: true })
})

beforeEach(async () => {
  upstream = await FaultyRegistry.start(registry)
})

afterEach(async () => {
  try {
    await fleet?.stop()
  } finally {
    fleet = undefined
    await upstream.stop()
  }
})

async function startFleet(count, args = []) {
  fleet = await Fleet.start(path.join(folder, `fleet-${names++}`), count, ['--upstream', upstream.url, ...args])
}

async function newImage(layers) {
  const image = makeImage(layers)
  await push(registry, 'team/app', 'v1', image)
  return image
}

const pull = (host, image, options) => pullImage(host.mirror.port, 'team/app', 'v1', image, options)

function assertFetchedOnce(image) {
  for (const blob of new Set(image.blobs)) {
    const copies = upstream.copiesOf(blob)
    assert.ok(copies >= 1 && copies <= COPIES_MAX, `the registry sent a blob of ${blob.length} bytes ${copies.toFixed(3)} times`)
  }
}

describe('a fleet of mirrors', () => {
  it('fetches an image once for 8 hosts, and gives it to a ninth when the registry is off', { timeout: 60_000 }, async () => {
    await startFleet(8, ['--offline-ok'])
    const image = await newImage([8 * MIB, 8 * MIB, 8 * MIB])
    await Promise.all(fleet.hosts.map((host) => pull(host, image)))
    assertFetchedOnce(image)

    upstream.isDown = true
    const late = await fleet.add()
    const { sources } = await pull(late, image)
    assert.deepEqual([...sources], ['fleet'])
    assertFetchedOnce(image)
  })
})
