// Mirrors of several hosts pull an image together while hosts, the registry or a member of the fleet fail.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { Fleet, PullError, newFleetKey, pullAgain, pullImage, pullImageSoon, pullOne, statusOf } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'

const MIB = 1 << 20
/** For each test, on a machine that other programs keep busy. Alone, one takes seconds. */
const TEST_MS = 240_000
/** Until a part of a layer has arrived at all hosts, there. */
const PART_MS = 60_000
/** The longest time without a byte after a host has failed, on an idle machine. */
const PAUSE_MS_MAX = 3_000
/** The longest time without a byte while no host fails, on an idle machine: at the rate of the registry, a block takes a fifth of a second. */
const USUAL_PAUSE_MS = 500
/** Connections of one mirror to a registry that is down, until it gives up a blob. */
const TRIES_MAX = 8
/** A mirror asks a registry that failed again after ten seconds; the rest is for a busy machine. */
const RECOVERY_MS_MAX = 30_000
/** Less than one segment, so that one host fetches all of it. */
const SEGMENT = 15 * MIB
const SLOW = 5 * MIB

const folder = newFolder()
let registry
let upstream
let fleet
let image
let names = 0

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
})

after(() => registry?.stop())

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
  image = makeImage(layers)
  await push(registry, 'app', 'v1', image)
}

const blobPath = (blob) => `/v2/app/blobs/${digestOf(blob)}`
const pullLayer = ({ mirror }, blob = image.layers[0]) => pullOne(mirror.port, blobPath(blob), digestOf(blob))
const pullLayerAgain = ({ index, mirror }, blob = image.layers[0], ms = RECOVERY_MS_MAX) =>
  pullAgain(mirror.port, 'app', blob, `host ${index} gets the blob`, ms)

/** Pulls the manifest on hosts, as an engine does before it pulls layers. */
const pullManifests = (hosts = fleet.hosts) =>
  Promise.all(hosts.map(({ mirror }) => pullOne(mirror.port, `/v2/app/manifests/${image.digest}`, image.digest)))

/**
 * Starts to pull the layer on all hosts. Returns a function that awaits how it ended on some of them, the clients with a byte, and a
 * function for the longest time until now that one of them had no byte.
 */
async function pullEverywhere() {
  await pullManifests()
  const digest = digestOf(image.layers[0])
  const begun = new Set()
  let pauseMs = 0
  const settled = (pulling) =>
    pulling.then(
      (pulled) => ({ pulled }),
      (error) => ({ error }),
    )
  const pull = (host) => {
    const onBytes = (_bytes, ms) => {
      begun.add(host)
      pauseMs = Math.max(pauseMs, ms)
    }
    return pullOne(host.mirror.port, blobPath(image.layers[0]), digest, { onBytes })
  }
  const pulls = new Map(fleet.hosts.map((host) => [host, settled(pull(host))]))
  const ended = (hosts) => Promise.all(hosts.map((host) => pulls.get(host)))
  return { ended, begun, longestPause: () => pauseMs }
}

/**
 * Pulls a new layer on all hosts, slowly, and waits until all clients have a byte and the registry has sent a part of the layer.
 * `slowdown` is how many times longer than usual a client was without a byte meanwhile, at least 1: on a busy machine, all is late.
 */
async function pullSlowly(part) {
  await newImage([SEGMENT])
  upstream.bytesPerSecond = SLOW
  const { ended, begun, longestPause } = await pullEverywhere()
  const isFetched = () => begun.size === fleet.hosts.length && upstream.copiesOf(image.layers[0]) > part
  await waitUntil(isFetched, `all clients have a byte, and ${part} of the layer is sent`, PART_MS)
  return { ended, slowdown: Math.max(1, longestPause() / USUAL_PAUSE_MS) }
}

/** The host to which the registry sends the layer now. */
const fetcher = () => waitUntil(() => fleet.hostWithPort(upstream.receiversOf(image.layers[0])), 'a host fetches the layer', PART_MS)

const others = (host) => fleet.hosts.filter((other) => other !== host)

function assertPulled(ended, pauseMsMax = Infinity) {
  for (const { pulled, error } of ended) {
    assert.equal(error, undefined)
    assert.ok(pulled.pauseMs < pauseMsMax, `${Math.round(pulled.pauseMs)} ms without a byte`)
  }
}

function assertSent(copiesMax) {
  const copies = upstream.copiesOf(image.layers[0])
  assert.ok(copies < copiesMax, `the registry sent the layer ${copies} times`)
}

describe('a host that fails', () => {
  it('is replaced within 3 seconds when it is killed while it fetches', { timeout: TEST_MS }, async () => {
    await startFleet(4)
    const { ended, slowdown } = await pullSlowly(0.4)
    const killed = await fetcher()
    await fleet.killHost(killed)
    assertPulled(await ended(others(killed)), PAUSE_MS_MAX * slowdown)
    assertSent(1.5)
  })

  it('does not stop the others when it is killed, whichever it is, and goes on after its restart', { timeout: TEST_MS }, async () => {
    await startFleet(4)
    for (const killed of [...fleet.hosts]) {
      const { ended, slowdown } = await pullSlowly(0.3)
      await fleet.killHost(killed)
      assertPulled(await ended(others(killed)), PAUSE_MS_MAX * slowdown)
      await fleet.run(killed)
      await fleet.isConnected()
      await pullLayerAgain(killed)
    }
  })

  it('fetches nothing from the registry that others have when it starts again without its blobs', { timeout: TEST_MS }, async () => {
    await startFleet(3)
    const startedAt = performance.now()
    await newImage(Array.from({ length: 12 }, (_, index) => 1000 + index))
    for (const { mirror } of fleet.hosts) await pullImage(mirror.port, 'app', 'v1', image)
    // In its first seconds a host announces its content several times.
    await waitUntil(() => performance.now() - startedAt > 13_000, 'the hosts have announced their content', 20_000)
    const [host] = fleet.hosts
    await fleet.killHost(host)
    rmSync(path.join(host.store, 'blobs'), { recursive: true })
    await fleet.run(host)
    await fleet.isConnected()
    await pullImage(host.mirror.port, 'app', 'v1', image)
    const copies = image.layers.map((blob) => upstream.copiesOf(blob)).filter((one) => one > 1)
    assert.equal(copies.length, 0, `the registry sent ${copies.length} of ${image.layers.length} layers again`)
  })

  it('does not stop the others when it stalls while it fetches, and goes on later', { timeout: TEST_MS }, async () => {
    await startFleet(4)
    const { ended } = await pullSlowly(0.4)
    const stalled = await fetcher()
    process.kill(stalled.mirror.pid, 'SIGSTOP')
    try {
      assertPulled(await ended(others(stalled)))
    } finally {
      process.kill(stalled.mirror.pid, 'SIGCONT')
    }
    await pullLayerAgain(stalled)
  })

  it('goes on with what it had when all hosts are killed and start again', { timeout: TEST_MS }, async () => {
    await startFleet(3)
    const { ended } = await pullSlowly(0.5)
    await Promise.all(fleet.hosts.map((host) => fleet.killHost(host)))
    for (const { error } of await ended(fleet.hosts)) assert.ok(error, 'a pull of a killed host cannot end well')
    upstream.bytesPerSecond = Infinity
    for (const host of fleet.hosts) await fleet.run(host)
    await fleet.isConnected()
    await Promise.all(fleet.hosts.map((host) => pullLayerAgain(host)))
    assertSent(1.3)
  })

  it('sends its clients to the registry when the blob does not fit, and the others have it', { timeout: TEST_MS }, async () => {
    await startFleet(3)
    const small = await fleet.add({ args: ['--store-bytes-max', String(4 * MIB)] })
    await newImage([6 * MIB])
    const { ended } = await pullEverywhere()
    assertPulled(await ended(others(small)))
    const [{ error }] = await ended([small])
    assert.equal(error?.status, 404, error?.message)
    assert.match(error.message, /--store-bytes-max/)
  })

  it('sends its clients to the registry when its disk is full, and the others have the blob', { timeout: TEST_MS }, async (t) => {
    await startFleet(3)
    const store = path.join(path.dirname(fleet.hosts[0].store), `host-${fleet.hosts.length}`)
    mkdirSync(store)
    const mount = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
    const within = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', mount, store]
    if (spawnSync(within[0], [...within.slice(1), 'true']).status !== 0) {
      return t.skip('this machine does not allow mounting a small file system')
    }
    const full = await fleet.add({ within })
    await newImage([6 * MIB])
    const { ended } = await pullEverywhere()
    assertPulled(await ended(others(full)))
    const [{ error }] = await ended([full])
    assert.ok(error instanceof PullError && (error.isCut || error.status === 404), String(error))
    await assert.rejects(pullLayer(full), { status: 404 })
    assert.match(full.mirror.stderr, /the disk of the store is full/)
    assertSent(2)
  })
})

describe('a fleet that changes while it pulls', () => {
  const knows = async (host) => (await statusOf(host)).fleet.known_hosts

  it('gets a new key, one host after the other, without a failed pull', { timeout: 2 * TEST_MS }, async () => {
    await startFleet(3)
    const old = fleet.key
    const key = newFleetKey(path.join(folder, `key-${names++}`))
    for (const args of [['--fleet-key-before', old], []]) {
      for (const host of [...fleet.hosts]) {
        const { ended } = await pullSlowly(0.2)
        await host.mirror.stop()
        Object.assign(host, { key, args })
        await fleet.run(host)
        await waitUntil(async () => (await Promise.all(fleet.hosts.map(knows))).every((count) => count === 2), 'all hosts know each other')
        assertPulled(await ended(others(host)))
        await pullLayerAgain(host)
        // The host that stopped may have coordinated the layer, so that another host began to fetch it too.
        assertSent(2.1)
      }
    }
    upstream.bytesPerSecond = Infinity
    await newImage([3 * MIB])
    const { ended } = await pullEverywhere()
    assertPulled(await ended(fleet.hosts))
    assertSent(1.1)
    const late = await fleet.add({ key: old })
    await pullLayerAgain(late)
    assert.equal(await knows(late), 0, 'the old key is of no use')
  })

  it('goes on when the clock of a host is a day ahead or behind', { timeout: TEST_MS }, async (t) => {
    const source = path.join(folder, 'clock.c')
    const library = path.join(folder, 'clock.so')
    writeFileSync(
      source,
      `#define _GNU_SOURCE
      #include <stdlib.h>
      #include <sys/syscall.h>
      #include <time.h>
      #include <unistd.h>
      int clock_gettime(clockid_t clock, struct timespec *time) {
        long result = syscall(SYS_clock_gettime, clock, time);
        if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += atol(getenv("CLOCK_OFFSET"));
        return result;
      }`,
    )
    if (spawnSync('cc', ['-shared', '-fPIC', '-o', library, source]).status !== 0) return t.skip('there is no C compiler')
    await startFleet(1)
    const day = 86_400
    for (const offset of [day, -day]) {
      await fleet.add({ within: ['env', `LD_PRELOAD=${library}`, `CLOCK_OFFSET=${offset}`] })
    }
    await fleet.isConnected()
    await newImage([3 * MIB, 1000])
    for (const { mirror } of fleet.hosts) await pullImage(mirror.port, 'app', 'v1', image)
    assertSent(1.1)
    const days = fleet.hosts.map(({ mirror }) => (Date.parse(mirror.stderr.split(' ')[0]) - Date.now()) / 1000 / day)
    assert.deepEqual(
      days.map((one) => Math.round(one) || 0),
      [0, 1, -1],
    )

    // From now on their clocks are right, and they have records of a day that has not begun, or that is over.
    for (const host of fleet.hosts.slice(1)) {
      await fleet.killHost(host)
      host.within = []
      await fleet.run(host)
    }
    await fleet.isConnected()
    for (const { mirror } of fleet.hosts) await pullImage(mirror.port, 'app', 'v1', image)
    assertSent(1.1)
  })
})

describe('a registry that fails', () => {
  it('is asked again when it comes back soon', { timeout: TEST_MS }, async () => {
    await startFleet(4)
    const { ended } = await pullSlowly(0.4)
    upstream.isDown = true
    await waitUntil(() => upstream.refused >= 2, 'the mirrors ask the registry again', PART_MS)
    upstream.isDown = false
    assertPulled(await ended(fleet.hosts))
  })

  it('cuts all responses in time when it stays down, and all hosts get the blob when it comes back', { timeout: TEST_MS }, async () => {
    await startFleet(4)
    const { ended } = await pullSlowly(0.4)
    upstream.isDown = true
    for (const { error } of await ended(fleet.hosts)) {
      assert.ok(error instanceof PullError && (error.isCut || error.status === 404), String(error))
    }
    // They gave up, and did not begin again after the ten seconds in which a mirror leaves such a registry alone.
    assert.ok(upstream.refused <= TRIES_MAX * fleet.hosts.length, `${upstream.refused} connections while it was down`)
    upstream.isDown = false
    upstream.bytesPerSecond = Infinity
    await Promise.all(fleet.hosts.map((host) => pullLayerAgain(host)))
    assertSent(1.5)
  })
})

describe('strangers', () => {
  it('cannot join with another key', { timeout: TEST_MS }, async () => {
    await startFleet(2, ['--offline-ok'])
    await newImage([2 * MIB])
    for (const { mirror } of fleet.hosts) await pullImage(mirror.port, 'app', 'v1', image)
    upstream.isDown = true
    const stranger = await fleet.add({ key: newFleetKey(path.join(folder, `key-${names++}`)) })
    await assert.rejects(pullImage(stranger.mirror.port, 'app', 'v1', image), (error) => error instanceof PullError && error.status >= 400)
    await assert.rejects(pullLayer(stranger), (error) => error instanceof PullError && error.status >= 400)
    const member = await fleet.add()
    await fleet.isConnected()
    assert.deepEqual([...(await pullImageSoon(member.mirror.port, 'app', 'v1', image)).sources], ['fleet'])
  })

  it('do no harm with garbage and idle connections on the port of the fleet', { timeout: TEST_MS }, async () => {
    await startFleet(3)
    const before = fleet.hosts.map(({ mirror }) => mirror.residentBytes())
    const garbage = [
      randomBytes(64 << 10),
      Buffer.alloc(64 << 10),
      Buffer.alloc(64 << 10, 0xff),
      Buffer.from('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n'),
      Buffer.from('\x13/multistream/1.0.0\n'),
      randomBytes(24),
      Buffer.alloc(0),
    ]
    const sockets = []
    for (const { peer } of fleet.hosts) {
      for (let index = 0; index < 70; index++) {
        const [host, port] = peer.split(':')
        const socket = net.connect({ host, port: Number(port) })
        socket.on('error', () => {})
        await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve))
        socket.write(garbage[index % garbage.length])
        sockets.push(socket)
      }
    }
    await newImage([3 * MIB])
    const { ended } = await pullEverywhere()
    assertPulled(await ended(fleet.hosts))
    for (const socket of sockets) socket.destroy()
    for (const [index, { mirror }] of fleet.hosts.entries()) {
      assert.ok(mirror.isRunning)
      const grown = mirror.residentBytes() - before[index]
      assert.ok(grown < 64 * MIB, `the memory has grown by ${grown} bytes`)
    }
  })
})

describe('a member that lies', () => {
  /** Changes a block of a complete blob in a store, and its hash in the list of blocks. */
  function tamper(store, blob, block) {
    const hex = digestOf(blob).split(':')[1]
    const file = path.join(store, 'blobs', 'sha256', hex.slice(0, 2), hex)
    const bytes = Buffer.from(blob.subarray(block * MIB, (block + 1) * MIB))
    randomBytes(16).copy(bytes)
    write(file, bytes, block * MIB)
    write(`${file}.blocks`, createHash('sha256').update(bytes).digest(), block * 32)
  }

  function write(name, bytes, at) {
    const file = openSync(name, 'r+')
    writeSync(file, bytes, 0, bytes.length, at)
    closeSync(file)
  }

  for (const [where, block] of [
    ['first', 0],
    ['last', 4],
  ]) {
    it(`gives no client a wrong blob: the ${where} block of the blob is wrong`, { timeout: TEST_MS }, async () => {
      await startFleet(3)
      await newImage([4 * MIB, 5000])
      const [liar, ...honest] = fleet.hosts
      await pullImage(liar.mirror.port, 'app', 'v1', image)
      await liar.mirror.stop()
      tamper(liar.store, image.layers[0], block)
      tamper(liar.store, image.layers[1], 0)
      await fleet.run(liar)
      await fleet.isConnected()
      // A pull that ends with a whole response of another digest fails here.
      await Promise.all(honest.flatMap((host) => image.layers.map((blob) => pullLayerAgain(host, blob))))
      for (const host of honest) for (const blob of image.layers) assert.equal((await pullLayer(host, blob)).source, 'store')
    })
  }

  it('gives no client a wrong blob while the registry is down, and a right one later', { timeout: TEST_MS }, async () => {
    await startFleet(2, ['--offline-ok'])
    await newImage([4 * MIB])
    const [liar, honest] = fleet.hosts
    await pullImage(liar.mirror.port, 'app', 'v1', image)
    await liar.mirror.stop()
    tamper(liar.store, image.layers[0], 2)
    await fleet.run(liar)
    await fleet.isConnected()
    await pullOne(honest.mirror.port, '/v2/app/manifests/v1', image.digest)
    upstream.isDown = true
    await assert.rejects(pullLayer(honest), (error) => error instanceof PullError)
    upstream.isDown = false
    await pullLayerAgain(honest)
  })
})
