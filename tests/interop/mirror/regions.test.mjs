// Mirrors of several regions with one key: the registry sends each blob once to each region, or once to all if they are linked.

import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { Fleet, PullError, pullAgain, pullImage, pullImageSoon, statusOf } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { connectionsOf } from '../lib/process-sockets.mjs'
import { FaultyRegistry, Registry, makeImage, push } from '../lib/registry.mjs'

const MIB = 1 << 20
/** How much more than a copy the registry may send to a region. */
const EXCESS_MAX = 1.05
/** How many copies may cross from one region into another. */
const CROSSING_MAX = 1.2

const folder = newFolder()
let registry
let upstream
let fleet
let tags = 0

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

async function newImage(layers, tag = 'v1') {
  const image = makeImage(layers)
  await push(registry, 'team/app', tag, image)
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

/** The options of a host that takes images from other regions: a host of each, and its price. */
const linked = (region, links) => [
  '--region',
  region,
  ...links.flatMap(([name, { peer }, price]) => ['--region-link', `${name}=${peer},price=${price}`]),
]
const total = (image) => image.blobs.reduce((sum, { length }) => sum + length, 0)

/** The bytes that these hosts got from each other region. */
async function crossed(hosts) {
  const regions = (await Promise.all(hosts.map(statusOf))).flatMap(({ fleet: { regions } }) => regions)
  return (region) => regions.filter(({ name }) => name === region).reduce((sum, { received_bytes: bytes }) => sum + bytes, 0)
}

describe('linked regions', () => {
  it('get one copy from the registry, and each the next from the cheapest region', { timeout: 90_000 }, async () => {
    fleet.joins = false
    const addAll = async (name, count, links) => {
      const hosts = []
      while (hosts.length < count) {
        const join = hosts.slice(0, 1).flatMap(({ peer }) => ['--join', peer])
        hosts.push(await fleet.add({ args: [...linked(name, links), ...join] }))
      }
      return hosts
    }
    const eu = await addAll('eu', 2, [])
    const us = await addAll(
      'us',
      2,
      eu.map((host) => ['eu', host, 2]),
    )
    const links = [
      ['eu', eu[0], 3],
      ['us', us[0], 0.5],
      ['us', us[1], 0.5],
    ]
    const asia = await addAll('asia', 3, links)
    for (const hosts of [eu, us, asia]) {
      const areConnected = async () => (await Promise.all(hosts.map(known))).every((count) => count === hosts.length - 1)
      await waitUntil(areConnected, 'the hosts of a region know each other, and no others')
    }

    // Dials take long on a busy machine, so the hosts connect first.
    for (const [giver, name, hosts] of [
      [eu[0], 'eu', us],
      [us[0], 'us', asia],
    ]) {
      for (const host of hosts) {
        const takes = async () => {
          const tag = `tag-${tags++}`
          const small = await newImage([1000], tag)
          for (const one of [giver, host]) await pullImageSoon(one.mirror.port, 'team/app', tag, small)
          return (await crossed([host]))(name) > 0
        }
        await waitUntil(takes, `a host takes an image from ${name}`)
      }
    }
    const before = { us: (await crossed(us))('eu'), asia: (await crossed(asia))('us'), dear: (await crossed(asia))('eu') }

    const image = await newImage([40 * MIB, 3 * MIB, 1000])
    // On a busy machine a client may wait too long for a first byte, and tries again.
    for (const hosts of [eu, us, asia]) {
      await Promise.all(hosts.map(({ mirror }) => pullImageSoon(mirror.port, 'team/app', 'v1', image)))
    }
    const sent = image.blobs.reduce((sum, blob) => sum + upstream.copiesOf(blob) * blob.length, 0) / total(image)
    assert.ok(sent >= 1 && sent <= EXCESS_MAX, `the registry sent ${sent.toFixed(3)} copies`)
    const copies = {
      us: ((await crossed(us))('eu') - before.us) / total(image),
      asia: ((await crossed(asia))('us') - before.asia) / total(image),
    }
    for (const [region, count] of Object.entries(copies)) {
      assert.ok(count >= 1 / EXCESS_MAX && count <= CROSSING_MAX, `${count.toFixed(3)} copies crossed into ${region}`)
    }
    assert.equal((await crossed(asia))('eu'), before.dear, 'the dearer region sends nothing')
    const text = await (await fetch(us[0].mirror.http('/metrics'))).text()
    assert.match(text, /^watchfire_mirror_region_received_bytes_total\{region="eu"\} \d+$/m)
  })

  it('go on with the registry when the other region stops', { timeout: 90_000 }, async () => {
    const eu = await fleet.add({ args: linked('eu', []) })
    const [us, asia] = [
      await fleet.add({ args: linked('us', [['eu', eu, 1]]) }),
      await fleet.add({ args: linked('asia', [['eu', eu, 1]]) }),
    ]
    const image = await newImage([80 * MIB])
    await pull(eu, image)
    const [layer] = image.layers
    let isStopped = false
    const onBytes = (bytes) => {
      if (bytes > 0 && !isStopped) process.kill(eu.mirror.pid, 'SIGSTOP')
      isStopped = true
    }
    try {
      const stopped = pullImage(us.mirror.port, 'team/app', 'v1', { ...image, blobs: [layer] }, { onBytes })
      await stopped.catch(() => pullAgain(us.mirror.port, 'team/app', layer, 'the region gets the layer', 30_000))
      assert.ok(isStopped)
      const bytes = (await crossed([us]))('eu')
      assert.ok(bytes > 0 && bytes < layer.length, `${bytes} bytes are from the stopped region`)
      await pullImageSoon(asia.mirror.port, 'team/app', 'v1', image)
      assert.equal((await crossed([asia]))('eu'), 0)
    } finally {
      process.kill(eu.mirror.pid, 'SIGCONT')
    }
  })

  it('give a private image only to a region with the same credentials', { timeout: 60_000 }, async () => {
    const credentials = (name, password) => {
      const file = path.join(folder, `${name}.json`)
      const auth = Buffer.from(`ann:${password}`).toString('base64')
      writeFileSync(file, JSON.stringify({ auths: { [`127.0.0.1:${upstream.port}`]: { auth } } }))
      return ['--credentials', file]
    }
    const eu = await fleet.add({ args: [...linked('eu', []), ...credentials('own', 'secret')] })
    const image = await newImage([20 * MIB, 1000])
    await pull(eu, image)
    const links = [['eu', eu, 1]]
    const others = [
      { args: [], isGiven: false },
      { args: credentials('other', 'guess'), isGiven: false },
      { args: credentials('same', 'secret'), isGiven: true },
    ]
    for (const { args, isGiven } of others) {
      const host = await fleet.add({ args: [...linked(isGiven ? 'us' : 'asia', links), ...args] })
      // The hosts of a region do not share what they pull with other credentials.
      await pull(host, image)
      assert.equal((await crossed([host]))('eu'), isGiven ? total(image) : 0)
    }
  })
})
