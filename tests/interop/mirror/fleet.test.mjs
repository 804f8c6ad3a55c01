// Mirrors of several hosts pull an image together, and each byte leaves the registry once.

import assert from 'node:assert/strict'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'

import { BridgedHosts } from '../lib/bridged-hosts.mjs'
import { Containerd } from '../lib/containerd.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { Fleet, PullError, pullImage, pullImageSoon, pullOne, statusOf } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Podman } from '../lib/podman.mjs'
import { run } from '../lib/program.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { TokenServer } from '../lib/token-server.mjs'

const MIB = 1 << 20
/** How often the registry may send the bytes of a blob. */
const COPIES_MAX = 1.05

const folder = newFolder()
let registry
/** It counts the bytes that leave the registry, and can be switched off. */
let upstream
let fleet
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
  const image = makeImage(layers)
  await push(registry, 'team/app', 'v1', image)
  return image
}

const pullSoon = ({ mirror }, image, tag = 'v1') => pullImageSoon(mirror.port, 'team/app', tag, image)

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
    const image = await newImage([40 * MIB, 40 * MIB, 40 * MIB])
    await Promise.all(fleet.hosts.map((host) => pull(host, image)))
    assertFetchedOnce(image)

    upstream.isDown = true
    const late = await fleet.add()
    const { sources } = await pullSoon(late, image)
    assert.deepEqual([...sources], ['fleet'])
    assertFetchedOnce(image)
  })

  it('fetches 1,000 small layers once for 4 hosts', { timeout: 60_000 }, async () => {
    await startFleet(4)
    const image = await newImage(Array.from({ length: 1000 }, (_, index) => 100 + index))
    await Promise.all(fleet.hosts.map((host) => pull(host, image, { connections: 10 })))
    const copies = image.blobs.reduce((sum, blob) => sum + upstream.copiesOf(blob), 0)
    assert.ok(copies <= image.blobs.length * COPIES_MAX, `the registry sent ${copies} blobs`)
  })

  it('fetches an image once for 100 pulls at a time on 4 hosts', { timeout: 60_000 }, async () => {
    await startFleet(4)
    const image = await newImage([3 * MIB, 100_000, 10])
    await Promise.all(Array.from({ length: 100 }, (_, index) => pull(fleet.hosts[index % 4], image)))
    assertFetchedOnce(image)
  })

  it('gives a new host all that the others have while the registry is off', { timeout: 60_000 }, async () => {
    await startFleet(2, ['--offline-ok'])
    const startedAt = performance.now()
    const images = Array.from({ length: 12 }, () => makeImage([1000]))
    for (const [index, image] of images.entries()) {
      await push(registry, 'team/app', `v${index}`, image)
      for (const { mirror } of fleet.hosts) await pullImage(mirror.port, 'team/app', `v${index}`, image)
    }
    // In its first seconds a host announces its content several times.
    await waitUntil(() => performance.now() - startedAt > 13_000, 'the hosts have announced their content', 20_000)
    upstream.isDown = true
    const late = await fleet.add()
    const pulls = images.map((image, index) => pullSoon(late, image, `v${index}`))
    const failed = (await Promise.allSettled(pulls)).flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
    assert.equal(failed.length, 0, `${failed.length} of ${images.length} images are not found, such as: ${failed[0]}`)
  })

  it('fetches a blob once whose size the engine has asked for', { timeout: 60_000 }, async () => {
    await startFleet(2)
    const [layer] = (await newImage([2 * MIB])).layers
    const target = `/v2/team/app/blobs/${digestOf(layer)}`
    for (const { mirror } of fleet.hosts) {
      assert.equal((await fetch(mirror.http(target), { method: 'HEAD' })).status, 200)
      await pullOne(mirror.port, target, digestOf(layer))
    }
    const copies = upstream.copiesOf(layer)
    assert.ok(copies <= COPIES_MAX, `the registry sent the blob ${copies} times`)
  })
})

describe('the log of a fleet', () => {
  it('says for each blob which bytes came from whom', { timeout: 60_000 }, async () => {
    await startFleet(3)
    const image = await newImage([20 * MIB, 1000])
    await Promise.all(fleet.hosts.map((host) => pull(host, image)))
    const ids = await Promise.all(fleet.hosts.map(async (host) => (await statusOf(host)).fleet.peer_id))
    for (const blob of image.blobs) {
      const line = new RegExp(
        `INFO watchfire_mirror::audit: fetched a blob digest=${digestOf(blob)} repository="127\\.0\\.0\\.1:${upstream.port}/team/app" ` +
          'registry_bytes=(\\d+) host_bytes=(\\d+) hosts="(.*)"',
      )
      let fromRegistry = 0
      for (const [index, { mirror }] of fleet.hosts.entries()) {
        const found = await waitUntil(() => line.exec(mirror.stderr), 'the log has the blob')
        const sent = found[3] ? found[3].split(' ').map((part) => part.split('=')) : []
        assert.equal(
          sent.reduce((sum, [, bytes]) => sum + Number(bytes), 0),
          Number(found[2]),
        )
        for (const [id] of sent) assert.ok(ids.includes(id) && id !== ids[index], `${id} sent bytes`)
        assert.ok(Number(found[1]) + Number(found[2]) >= blob.length)
        fromRegistry += Number(found[1])
      }
      assert.equal(fromRegistry, Math.round(upstream.copiesOf(blob) * blob.length))
    }
  })
})

describe('a fleet with credentials', () => {
  const TENANTS = [
    { user: 'eve', password: 'a' },
    { user: 'ben', password: 'b' },
  ]
  const USER = { user: 'ann', password: 'se:cret', refreshToken: 'refresh-1', tenants: TENANTS }
  let tokens
  let closed

  before(async () => {
    tokens = await TokenServer.start(folder, USER)
    closed = await Registry.start(path.join(folder, 'closed'), { auth: tokens.configuration })
  })

  after(async () => {
    await closed?.stop()
    await tokens?.stop()
  })

  /** The option with the credentials of a user. */
  function credentials(text) {
    const file = path.join(folder, `config-${names++}.json`)
    const auth = Buffer.from(text).toString('base64')
    writeFileSync(file, JSON.stringify({ auths: { [`127.0.0.1:${upstream.port}`]: { auth } } }))
    return ['--credentials', file]
  }

  it('gives private content only to a host with the same credentials', { timeout: 60_000 }, async () => {
    await upstream.stop()
    upstream = await FaultyRegistry.start(closed)
    const image = makeImage([3 * MIB, 1000])
    const open = makeImage([2000])
    for (const [name, one] of [
      ['team/app', image],
      ['public/app', open],
    ]) {
      await push(closed, name, 'v1', one, { authorization: `Bearer ${tokens.token(name)}` })
    }
    await startFleet(1, ['--offline-ok', '--allow-redirect', '127.0.0.0/8'])
    const owner = await fleet.add({ args: credentials('ann:se:cret') })
    const none = fleet.hosts[0]
    const wrong = await fleet.add({ args: credentials('ann:wrong') })
    await fleet.isConnected()
    await pull(owner, image)
    await pullImage(none.mirror.port, 'public/app', 'v1', open)

    const assertRefused = async (host) => {
      await assert.rejects(pull(host, image), PullError)
      for (const blob of image.blobs) {
        for (const repository of ['team/app', 'public/app']) {
          const pulling = pullOne(host.mirror.port, `/v2/${repository}/blobs/${digestOf(blob)}`, digestOf(blob))
          await assert.rejects(pulling, PullError)
        }
      }
    }
    await assertRefused(none)
    await assertRefused(wrong)
    upstream.isDown = true
    await assertRefused(none)
    await assertRefused(wrong)
    const colleague = await fleet.add({ args: credentials('ann:se:cret') })
    assert.deepEqual([...(await pullSoon(colleague, image)).sources], ['fleet'])
    await assertRefused(none)
  })

  it('keeps the images of two tenants apart', { timeout: 120_000 }, async () => {
    await upstream.stop()
    upstream = await FaultyRegistry.start(closed)
    const shared = makeImage([2 * MIB])
    const repositories = {}
    for (const { user } of TENANTS) {
      repositories[user] = [shared, makeImage([2 * MIB, 1000])]
      const headers = { authorization: `Bearer ${tokens.token(`${user}/app`)}` }
      for (const [index, image] of repositories[user].entries()) await push(closed, `${user}/app`, `v${index}`, image, headers)
    }
    await startFleet(1, ['--allow-redirect', '127.0.0.0/8'])
    const owners = ['none', 'eve', 'ben', 'eve', 'ben']
    for (const owner of owners.slice(1)) {
      const { user, password } = TENANTS.find((one) => one.user === owner)
      await fleet.add({ args: credentials(`${user}:${password}`) })
    }
    await fleet.isConnected()

    const digestsOf = (user) => (repositories[user] ?? []).flatMap(({ manifest, blobs }) => [manifest, ...blobs].map(digestOf))
    const manifests = new Set(Object.values(repositories).flatMap((images) => images.map(({ digest }) => digest)))
    const names = [...new Set(['eve', 'ben'].flatMap(digestsOf))].map((digest) => [digest, manifests.has(digest) ? 'manifests' : 'blobs'])
    let seed = 7
    const random = (end) => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
      return Math.floor((seed / 2 ** 32) * end)
    }
    const ask = async (host, user, name, method) => {
      const [digest, kind] = name
      const answer = await fetch(fleet.hosts[host].mirror.http(`/v2/${user}/app/${kind}/${digest}`), { method })
      const bytes = Buffer.from(await answer.arrayBuffer())
      const what = `${method} ${kind} ${digest} of ${user} at a host of ${owners[host]}`
      if (owners[host] !== user || !digestsOf(user).includes(digest)) return assert.ok([401, 403, 404].includes(answer.status), what)
      assert.equal(answer.status, 200, what)
      if (method === 'GET') assert.equal(digestOf(bytes), digest, what)
    }
    const client = async () => {
      for (let step = 0; step < 60; step++) {
        await ask(random(owners.length), TENANTS[random(2)].user, names[random(names.length)], random(3) ? 'GET' : 'HEAD')
      }
    }
    await Promise.all(Array.from({ length: 5 }, client))

    for (const [index, { store }] of fleet.hosts.entries()) {
      const files = readdirSync(store, { recursive: true }).map((file) => path.basename(file))
      for (const [digest] of names) {
        const isStored = files.some((file) => file.includes(digest.slice(7)))
        assert.ok(!isStored || digestsOf(owners[index]).includes(digest), `a host of ${owners[index]} stores ${digest}`)
      }
    }
    const received = await Promise.all(fleet.hosts.map(async (host) => (await statusOf(host)).downloads.host_bytes))
    assert.equal(received[0], 0)
    for (const [one, other] of [
      [1, 3],
      [2, 4],
    ]) {
      assert.ok(received[one] + received[other] > MIB, `the hosts of ${owners[one]} share`)
    }
  })
})

/** The file of a blob in the store of a host. */
const blobFile = ({ store }, digest) => path.join(store, 'blobs', 'sha256', digest.slice(7, 9), digest.slice(7))

describe('unmodified engines on 3 hosts', () => {
  const REGISTRY = 'registry.example'
  let bridged
  let problem

  before(async () => {
    try {
      bridged = BridgedHosts.create(3)
    } catch (error) {
      problem = error.message
    }
  })

  after(() => bridged?.remove())

  /** Starts a fleet with a mirror on each host. */
  async function startOnHosts() {
    await upstream.stop()
    upstream = await FaultyRegistry.start(registry, { address: bridged.address })
    fleet = new Fleet(path.join(folder, `fleet-${names++}`), ['--upstream', `${REGISTRY}=${upstream.url}`, '--offline-ok'])
    for (const { within, address } of bridged.hosts) await fleet.add({ within, address })
    await fleet.isConnected()
  }

  /** The first engine pulls from the registry, and the others while it is off. */
  async function assertPulledOnce(engines, check) {
    const image = await newImage([3 * MIB, 20 * MIB, 10])
    const name = `${REGISTRY}/team/app:v1`
    for (const engine of engines) {
      await engine.pull(name)
      await check(engine, name, image)
      upstream.isDown = true
    }
    assertFetchedOnce(image)
  }

  it('containerd pulls on each, the second and third while the registry is off', { timeout: 120_000 }, async (t) => {
    if (!bridged) return t.skip(problem)
    await startOnHosts()
    const engines = []
    try {
      for (const [index, { within }] of bridged.hosts.entries()) {
        const engine = await Containerd.start(path.join(folder, `containerd-${index}`), { within })
        engines.push(engine)
        const url = `http://127.0.0.1:${fleet.hosts[index].mirror.port}`
        engine.useMirrors(REGISTRY, 'http://127.0.0.1:1', [{ url, capabilities: ['pull', 'resolve'] }])
      }
      await assertPulledOnce(engines, async (engine, name, image) => {
        const { stdout } = await engine.ctr('images', 'check', `name==${name}`)
        assert.match(stdout, /complete \(\d+\/\d+\)/)
        const listed = await engine.ctr('images', 'ls', `name==${name}`)
        assert.ok(listed.stdout.includes(image.digest), listed.stdout)
      })
    } finally {
      await Promise.all(engines.map((engine) => engine.stop()))
    }
  })

  it('containerd keeps the only copy of a blob, and other hosts get it from there', { timeout: 120_000 }, async (t) => {
    if (!bridged) return t.skip(problem)
    await startOnHosts()
    const [owner, other] = fleet.hosts
    const root = path.join(folder, `containerd-blobs-${names++}`)
    const engine = await Containerd.start(root, { within: bridged.hosts[0].within })
    try {
      engine.useMirrors(REGISTRY, 'http://127.0.0.1:1', [
        { url: `http://127.0.0.1:${owner.mirror.port}`, capabilities: ['pull', 'resolve'] },
      ])
      const image = await newImage([3 * MIB, 1000])
      await engine.pull(`${REGISTRY}/team/app:v1`)
      upstream.isDown = true
      await fleet.killHost(owner)
      owner.args = ['--containerd-blobs', path.join(root, 'root/io.containerd.content.v1.content/blobs')]
      await fleet.run(owner)
      const own = () => image.layers.filter((blob) => existsSync(blobFile(owner, digestOf(blob))))
      await waitUntil(() => own().length === 0, 'the mirror removes its copies')
      await fleet.isConnected()
      const [curl, ...within] = [...bridged.hosts[1].within, 'curl', '--silent', '--fail', '--retry', '5', '--retry-all-errors']
      for (const blob of image.layers) {
        const url = other.mirror.http(`/v2/team/app/manifests/v1`)
        await run(curl, [...within, url])
        const { stdout } = await run(curl, [...within, other.mirror.http(`/v2/team/app/blobs/${digestOf(blob)}`)], {
          encoding: 'buffer',
          maxBuffer: 8 * MIB,
        })
        assert.equal(digestOf(stdout), digestOf(blob))
      }
      assert.equal(own().length, 0)
      assertFetchedOnce(image)
    } finally {
      await engine.stop()
    }
  })

  it('podman pulls on each, the second and third while the registry is off', { timeout: 120_000 }, async (t) => {
    if (!bridged) return t.skip(problem)
    await startOnHosts()
    const engines = bridged.hosts.map(({ within }, index) => {
      const engine = new Podman(path.join(folder, `podman-${index}`), { within })
      engine.useMirror(REGISTRY, `127.0.0.1:${fleet.hosts[index].mirror.port}`)
      return engine
    })
    await assertPulledOnce(engines, async (engine, name, image) => assert.equal(await engine.digestOf(name), image.digest))
  })
})
