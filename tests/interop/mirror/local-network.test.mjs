// Mirrors of one network that find each other by mDNS. The hosts are network namespaces on a bridge, so the test needs root.

import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'

import { BridgedHosts } from '../lib/bridged-hosts.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { Fleet, newFleetKey, pullImageWithin, statusOf } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { FaultyRegistry, Registry, makeImage, push } from '../lib/registry.mjs'
import { start } from '../lib/server.mjs'

const MIB = 1 << 20

const folder = newFolder()
let registry
let upstream
let bridged
let problem
let fleet
let image

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
  image = makeImage([3 * MIB, 1000])
  await push(registry, 'team/app', 'v1', image)
  try {
    bridged = BridgedHosts.create(4)
  } catch (error) {
    problem = error.message
  }
})

after(async () => {
  bridged?.remove()
  await registry?.stop()
})

afterEach(async () => {
  await fleet?.stop()
  fleet = undefined
  await upstream?.stop()
  upstream = undefined
})

/** A fleet without any `--join`, in front of a registry that can be switched off. */
async function newFleet(name) {
  upstream = await FaultyRegistry.start(registry, { address: bridged.address })
  fleet = new Fleet(path.join(folder, name), ['--upstream', upstream.url, '--offline-ok', '--mdns'])
  fleet.joins = false
}

/** Starts the mirror of a host of the bridge. */
const add = (index, options = {}) => fleet.add({ ...bridged.hosts[index], ...options })

describe('mirrors with --mdns', () => {
  it('find the hosts with their key on the network, and pull from them while the registry is off', { timeout: 90_000 }, async (t) => {
    if (!bridged) return t.skip(problem)
    await newFleet('found')
    const stranger = await add(3, { key: newFleetKey(path.join(folder, 'other-key')) })
    const [first, ...others] = [await add(0), await add(1), await add(2)]
    await fleet.isConnected()
    await pullImageWithin(first, 'team/app', 'v1', image)
    upstream.isDown = true
    for (const host of others) assert.deepEqual([...(await pullImageWithin(host, 'team/app', 'v1', image))], ['fleet'])
    const { fleet: strange } = await statusOf(stranger)
    assert.deepEqual([strange.known_hosts, strange.connections], [0, 0])
    for (const { mirror } of fleet.hosts) assert.doesNotMatch(mirror.stderr, /cannot receive mDNS/)
  })

  it('find a host that starts again', { timeout: 90_000 }, async (t) => {
    if (!bridged) return t.skip(problem)
    await newFleet('again')
    const any = { address: '0.0.0.0' }
    const [first, second] = [await add(0, any), await add(1, any)]
    await fleet.isConnected()
    await pullImageWithin(first, 'team/app', 'v1', image)
    await fleet.killHost(second)
    rmSync(second.store, { recursive: true })
    upstream.isDown = true
    await fleet.run(second)
    await fleet.isConnected()
    assert.deepEqual([...(await pullImageWithin(second, 'team/app', 'v1', image))], ['fleet'])
  })

  it('warn and work alone on a host where another program keeps the port', { timeout: 60_000 }, async (t) => {
    if (!bridged) return t.skip(problem)
    await newFleet('taken')
    const [host] = bridged.hosts
    const code = `const socket = require('node:dgram').createSocket('udp4'); socket.bind(5353, () => console.log('bound to ' + socket.address().port))`
    const [program, ...args] = [...host.within, process.execPath, '--eval', code]
    const other = await start(program, args, /^bound to (\d+)$/)
    try {
      const alone = await add(0)
      const warned = () => /WARN.*cannot receive mDNS on port 5353/.test(alone.mirror.stderr)
      await waitUntil(warned, 'the mirror warns')
      await pullImageWithin(alone, 'team/app', 'v1', image)
      for (const blob of image.blobs) assert.equal(upstream.copiesOf(blob), 1)
    } finally {
      other.kill()
      await other.exited()
    }
  })
})
