// Mirrors of two regions with one key: the registry sends each blob once to each region.

import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { Fleet, PullError, pullImage, statusOf } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { connectionsOf } from '../lib/process-sockets.mjs'
import { FaultyRegistry, Registry, makeImage, push } from '../lib/registry.mjs'

const MIB = 1 << 20
/** How much more than two copies the registry may send. */
const EXCESS_MAX = 1.05

const folder = newFolder()
let registry
let upstream
let fleet

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
})

after(() => registry?.stop())

beforeEach(async () => {
  upstream = await FaultyRegistry.start(registry)
  fleet = new Fleet(path.join(folder, 'fleet'), ['--upstream', upstream.url, '--offline-ok'])
})

afterEach(async () => {
  await fleet.stop()
  await upstream.stop()
  rmSync(path.join(folder, 'fleet'), { recursive: true, force: true })
})

const pull = (host, image) => pullImage(host.mirror.port, 'team/app', 'v1', image)
const known = async (host) => (await statusOf(host)).fleet.known_hosts

async function newImage(layers) {
  const image = makeImage(layers)
  await push(registry, 'team/app', 'v1', image)
  return image
}

/** The ports at which both of two processes have an end of one connection. */
function shared(first, second) {
  const ends = new Set(connectionsOf(second.mirror.pid).map(({ localPort, remotePort }) => `${remotePort} ${localPort}`))
  return connectionsOf(first.mirror.pid).filter(({ localPort, remotePort }) => ends.has(`${localPort} ${remotePort}`))
}

describe('regions', () => {
  it('get each blob once from the registry, and exchange nothing', { timeout: 60_000 }, async () => {
    const names = ['eu', 'us', 'eu', 'us']
    // Each host is told to join the others, also those of the other region.
    for (const name of names) await fleet.add({ args: ['--region', name] })
    const { hosts } = fleet
    await waitUntil(
      async () => (await Promise.all(hosts.map(known))).every((count) => count === 1),
      'each host knows the other one of its region',
    )

    const image = await newImage([20 * MIB, 3 * MIB, 1000])
    await Promise.all(hosts.map((host) => pull(host, image)))
    for (const blob of image.blobs) {
      const copies = upstream.copiesOf(blob)
      assert.ok(copies >= 2 && copies <= 2 * EXCESS_MAX, `the registry sent a blob of ${blob.length} bytes ${copies.toFixed(3)} times`)
    }
    const reports = await Promise.all(hosts.map(statusOf))
    assert.deepEqual(
      reports.map(({ fleet: { region } }) => region),
      names,
    )
    assert.deepEqual(
      reports.map(({ fleet: { known_hosts: count } }) => count),
      [1, 1, 1, 1],
    )
    const [eu, us, otherEu, otherUs] = hosts
    const total = image.blobs.reduce((sum, { length }) => sum + length, 0)
    for (const [one, other] of [
      [0, 2],
      [1, 3],
    ]) {
      const received = [one, other].reduce((sum, at) => sum + reports[at].downloads.host_bytes, 0)
      assert.ok(
        received >= total / EXCESS_MAX && received <= total * EXCESS_MAX,
        `hosts of ${names[one]} got ${received} bytes from each other`,
      )
    }
    assert.ok(shared(eu, otherEu).length > 0 && shared(us, otherUs).length > 0)
    // A refused handshake takes milliseconds; the host dials again seconds later.
    const strangers = [eu, otherEu].flatMap((one) => [us, otherUs].map((other) => [one, other]))
    const areApart = () => strangers.every(([one, other]) => shared(one, other).length === 0)
    await waitUntil(areApart, 'the regions have no connection')
  })

  it('refuse a host of another region, and one without a region', { timeout: 60_000 }, async () => {
    const owner = await fleet.add({ args: ['--region', 'eu'] })
    const image = await newImage([2 * MIB])
    await pull(owner, image)
    upstream.isDown = true
    const [other, none] = [await fleet.add({ args: ['--region', 'us'] }), await fleet.add()]
    const joined = await fleet.add({ args: ['--region', 'eu'] })
    await waitUntil(async () => (await known(joined)) === 1, 'a host of the region joins')
    assert.deepEqual([...(await pull(joined, image)).sources], ['fleet'])
    for (const host of [other, none]) {
      await assert.rejects(pull(host, image), PullError)
      assert.equal(await known(host), 0)
    }
  })

  it('are shown by the metrics', async () => {
    const host = await fleet.add({ args: ['--region', 'eu-west-1'] })
    const text = await (await fetch(host.mirror.http('/metrics'))).text()
    assert.match(text, /^watchfire_mirror_region_info\{name="eu-west-1"\} 1$/m)
  })
})
