// Loads images ahead of time into a mirror, and shows its state, in front of a real registry.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { requestExactly } from '../lib/exact-request.mjs'
import { newFolder } from '../lib/folders.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { binary, start, startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const INDEX = 'application/vnd.oci.image.index.v1+json'
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const REGISTRY = 'registry.example:8443'

const folder = newFolder()
let registry
let faulty
let mirror
let image

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
  faulty = await FaultyRegistry.start(registry)
  image = makeImage([3 * MIB + 17, 1000])
  await push(registry, 'team/app', 'v1', image)
  mirror = await startMirror(path.join(folder, 'store'), ['--upstream', `${REGISTRY}=${faulty.url}`])
})

after(async () => {
  await mirror?.stop()
  await faulty?.stop()
  await registry?.stop()
})

const url = (of = mirror) => `http://127.0.0.1:${of.port}`

/** Runs a command of `watchfire mirror`, and returns its exit code and output. */
function run(...args) {
  return new Promise((resolve) => {
    execFile(binary('watchfire'), ['mirror', ...args], { timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error ? error.code : 0, stdout, stderr })
    })
  })
}

const preload = (...args) => run('preload', '--mirror', url(), ...args)

async function status(of = mirror) {
  const response = await fetch(`${url(of)}/status`)
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('content-type'), 'application/json')
  return response.json()
}

/** The samples of `GET /metrics`, by their names with labels. */
async function metrics() {
  const response = await fetch(`${url()}/metrics`)
  assert.equal(response.status, 200)
  const lines = (await response.text()).trimEnd().split('\n')
  assert.equal(lines.pop(), '# EOF')
  const families = lines.filter((line) => line.startsWith('# TYPE ')).map((line) => line.split(' ')[2])
  assert.equal(new Set(families).size, families.length)
  const samples = lines
    .filter((line) => !line.startsWith('#'))
    .map((line) => {
      const match = /^(watchfire_mirror_[a-z_]+(?:\{[^}]*\})?) (\d+)$/.exec(line)
      assert.ok(match, line)
      return [match[1], Number(match[2])]
    })
  return Object.fromEntries(samples)
}

/** Pushes an index of images for these platforms. */
async function pushIndex(repository, tag, images) {
  for (const [platform, one] of Object.entries(images)) await push(registry, repository, platform.replaceAll('/', '-'), one)
  const manifests = Object.entries(images).map(([platform, one]) => {
    const [os, architecture] = platform.split('/')
    return { mediaType: MANIFEST, digest: one.digest, size: one.manifest.length, platform: { os, architecture } }
  })
  const body = JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests })
  const headers = { 'content-type': INDEX }
  const pushed = await fetch(`${registry.url}/v2/${repository}/manifests/${tag}`, { method: 'PUT', headers, body })
  assert.equal(pushed.status, 201, await pushed.text())
}

/** Makes the registry keep the second half of each response with bytes of a blob, or another share, until `release`. */
function holdBack(blob, sentShare = 0.5) {
  let send
  const released = new Promise((resolve) => (send = resolve))
  faulty.answer = (request, response) => {
    if (request.method !== 'GET' || !request.url.includes(digestOf(blob))) return false
    const range = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '')
    const [first, last] = range ? [Number(range[1]), Number(range[2])] : [0, blob.length - 1]
    const bytes = blob.subarray(first, last + 1)
    const part = range ? { 'content-range': `bytes ${first}-${last}/${blob.length}` } : {}
    response.writeHead(range ? 206 : 200, { 'content-length': bytes.length, 'accept-ranges': 'bytes', ...part })
    const sent = Math.floor(bytes.length * sentShare)
    response.flushHeaders()
    response.write(bytes.subarray(0, sent))
    released.then(() => response.end(bytes.subarray(sent)))
    return true
  }
  const release = () => {
    send()
    faulty.answer = () => false
  }
  return { release }
}

describe('preload', () => {
  it('loads all of an image, so that it is pulled without the registry', async () => {
    const { code, stdout, stderr } = await preload(`${REGISTRY}/team/app:v1`)
    assert.equal(code, 0, stderr)
    assert.equal(stdout.match(/from the registry in/g).length, image.blobs.length, stdout)
    assert.match(stdout, /^In the store: 1 of 1 images\. Loaded 3\.0 MiB \(3 blobs\) in .*; there before 0 B \(0 blobs\)$/m)
    const before = faulty.requests.length
    for (const blob of image.blobs) {
      const response = await fetch(`${url()}/v2/team/app/blobs/${digestOf(blob)}?ns=${encodeURIComponent(REGISTRY)}`)
      assert.equal(response.headers.get('watchfire-source'), 'store')
      assert.ok(Buffer.from(await response.arrayBuffer()).equals(blob))
    }
    assert.equal(faulty.requests.length, before)
  })

  it('says what was there already', async () => {
    await preload(`${REGISTRY}/team/app:v1`)
    const before = faulty.requests.filter(({ method }) => method === 'GET').length
    const { code, stdout } = await preload(`${REGISTRY}/team/app@${image.digest}`, `${REGISTRY}/team/app:v1`)
    assert.equal(code, 0)
    assert.match(stdout, /^In the store: 2 of 2 images\. Loaded 0 B \(0 blobs\) in .*; there before 3\.0 MiB \(3 blobs\)$/m)
    assert.equal(faulty.requests.filter(({ method }) => method === 'GET').length, before)
  })

  it('loads one platform of an index, or all', async () => {
    const [amd64, arm64] = [makeImage([20_000]), makeImage([30_000])]
    await pushIndex('team/multi', 'v1', { 'linux/amd64': amd64, 'linux/arm64': arm64 })
    const held = async (one) =>
      (await fetch(`${url()}/v2/team/multi/blobs/${digestOf(one.layers[0])}`, { method: 'HEAD' })).headers.get('watchfire-source')
    const name = `${REGISTRY}/team/multi:v1`
    assert.equal((await preload(name, '--platform', 'linux/arm64')).code, 0)
    assert.deepEqual([await held(amd64), await held(arm64)], ['registry', 'store'])
    const other = await preload(name, '--platform', 'linux/riscv64')
    assert.equal(other.code, 1)
    assert.match(other.stderr, /no image for linux\/riscv64; choose another --platform, of these: linux\/amd64, linux\/arm64/)
    assert.equal((await preload(name, '--all-platforms')).code, 0)
    assert.deepEqual([await held(amd64), await held(arm64)], ['store', 'store'])
  })

  it('loads the other images if one fails, and its exit code says so', async () => {
    const fresh = makeImage([5000])
    await push(registry, 'team/fresh', 'v1', fresh)
    const { code, stdout, stderr } = await preload(`${REGISTRY}/team/none:v1`, `${REGISTRY}/team/fresh:v1`, 'nginx')
    assert.equal(code, 1)
    assert.match(stdout, /^In the store: 1 of 3 images\./m)
    assert.match(stderr, /cannot load registry\.example:8443\/team\/none:v1: .*404/)
    assert.match(stderr, /cannot load docker\.io\/library\/nginx:latest: .*"docker\.io" is not mirrored: add it with --upstream/)
    const invalid = await preload('Nginx')
    assert.equal(invalid.code, 2)
    assert.match(invalid.stderr, /invalid image name "Nginx"/)
  })

  it('reads on after the registry broke off', async () => {
    const fresh = makeImage([4 * MIB])
    await push(registry, 'team/fresh', 'cut', fresh)
    let cuts = 0
    let seen = 0
    faulty.spoil = ({ url: target }, chunk) => {
      if (!target.includes(digestOf(fresh.layers[0])) || cuts > 0) return chunk
      seen += chunk.length
      if (seen < 2 * MIB) return chunk
      cuts += 1
      return null
    }
    const { code, stderr } = await preload(`${REGISTRY}/team/fresh:cut`)
    faulty.spoil = (_request, chunk) => chunk
    assert.equal(cuts, 1)
    assert.equal(code, 0, stderr)
  })

  it('waits for a registry whose first byte is late', async () => {
    const fresh = makeImage([200_000])
    await push(registry, 'team/fresh', 'late', fresh)
    const { error: errors } = (await status()).requests.blobs
    const hold = holdBack(fresh.layers[0], 0)
    const loading = preload(`${REGISTRY}/team/fresh:late`)
    // The mirror answers 404 after 2 s, so that container engines ask the registry themselves.
    const isRefused = async () => (await status()).requests.blobs.error > errors
    await waitUntil(isRefused, 'the mirror waits no more for the first byte')
    hold.release()
    const { code, stderr } = await loading
    assert.equal(code, 0, stderr)
  })

  it('fails for a blob with other bytes than its digest', async () => {
    const fresh = makeImage([100_000])
    await push(registry, 'team/fresh', 'wrong', fresh)
    faulty.spoil = ({ url: target }, chunk) => (target.includes(digestOf(fresh.layers[0])) ? Buffer.alloc(chunk.length) : chunk)
    const { code, stderr } = await preload(`${REGISTRY}/team/fresh:wrong`)
    faulty.spoil = (_request, chunk) => chunk
    assert.equal(code, 1)
    assert.match(stderr, /cannot load registry\.example:8443\/team\/fresh:wrong/)
  })

  it('says that no mirror answers', async () => {
    const { code, stderr } = await run('preload', '--mirror', 'http://127.0.0.1:1', 'nginx')
    assert.equal(code, 1)
    assert.match(stderr, /cannot reach the mirror at http:\/\/127\.0\.0\.1:1: .*--mirror/)
  })
})

describe('status', () => {
  it('is JSON with images, store, bytes and requests', async () => {
    const before = await status()
    const fresh = makeImage([2 * MIB])
    await push(registry, 'team/state', 'v1', fresh)
    const name = `${REGISTRY}/team/state:v1`
    assert.equal((await preload(name)).code, 0)
    const report = await status()
    assert.match(report.version, /^\d+\.\d+\.\d+/)
    assert.ok(report.uptime_seconds > 0)
    assert.equal(report.image_count, before.image_count + 1)
    assert.deepEqual(
      report.images.find((one) => one.name === name),
      { name, digest: fresh.digest },
    )
    const bytes = fresh.blobs.reduce((total, blob) => total + blob.length, 0)
    // Each blob has a list of its blocks, and the manifest counts too.
    const onDisk = (length) => Math.ceil(length / 4096) * 4096
    const taken = fresh.blobs.reduce((total, blob) => total + onDisk(blob.length) + onDisk(1), onDisk(1))
    assert.equal(report.store.bytes - before.store.bytes, taken)
    assert.equal(report.store.blobs - before.store.blobs, 2)
    assert.equal(report.downloads.registry_bytes - before.downloads.registry_bytes, bytes)
    assert.equal(report.downloads.completed - before.downloads.completed, 2)
    assert.equal(report.requests.manifests.registry - before.requests.manifests.registry, 1)
    assert.deepEqual([report.running, report.fleet], [[], null])
    assert.equal(report.requests.blobs.registry - before.requests.blobs.registry, 2)
    await fetch(`${url()}/v2/team/state/blobs/${digestOf(fresh.config)}`)
    assert.equal((await status()).requests.blobs.store - report.requests.blobs.store, 1)
    await fetch(`${url()}/v2/team/state/blobs/${digestOf('none')}`)
    assert.equal((await status()).requests.blobs.error - report.requests.blobs.error, 1)
  })

  it('is shown as text and as JSON by the command', async () => {
    await preload(`${REGISTRY}/team/app:v1`)
    const text = await run('status', '--mirror', url())
    assert.equal(text.code, 0, text.stderr)
    assert.match(text.stdout, /^Mirror \d+\.\d+\.\d+, started .* ago\nStore +[\d.]+ \w+ of 50\.0 GiB in \d+ blobs/)
    assert.ok(text.stdout.includes(`  ${REGISTRY}/team/app:v1  ${image.digest.slice(0, 19)}`), text.stdout)
    const json = JSON.parse((await run('status', '--mirror', url(), '--json')).stdout)
    assert.deepEqual(json.images, (await status()).images)
  })

  it('shows a running download while it is watched', async () => {
    const fresh = makeImage([8 * MIB])
    await push(registry, 'team/slow', 'v1', fresh)
    const digest = digestOf(fresh.layers[0])
    const hold = holdBack(fresh.layers[0])
    const watching = await start(binary('watchfire'), ['mirror', 'status', '--mirror', url(), '--watch'], /^Images +(\d+)/)
    const loading = preload(`${REGISTRY}/team/slow:v1`)
    const shown = () => watching.lines.findLastIndex((line) => line.startsWith(`  ${digest.slice(0, 19)}  ${REGISTRY}/team/slow`))
    const isSeen = () =>
      shown() >= 0 &&
      / MiB of 8\.0 MiB /.test(watching.lines[shown() + 1] ?? '') &&
      /MiB from the registry, 0 B from other hosts/.test(watching.lines[shown() + 2] ?? '')
    await waitUntil(isSeen, 'the download is shown').finally(() => watching.terminate())
    const [running] = (await status()).running
    hold.release()
    assert.equal((await loading).code, 0)
    // The exit code after a signal that shells expect.
    assert.deepEqual(await watching.exited(), { code: 128 + 15, signal: null })
    assert.equal(running.digest, digest)
    assert.equal(running.bytes, fresh.layers[0].length)
    assert.ok(running.present_bytes > 0 && running.present_bytes < running.bytes)
    assert.ok(running.registry_bytes >= running.present_bytes)
    assert.deepEqual([running.host_bytes, running.hosts], [0, []])
  })

  it('is refused to other hosts, and metrics are not', async (context) => {
    const addresses = Object.values(networkInterfaces())
      .flat()
      .filter(({ internal, family }) => !internal && family === 'IPv4')
    if (addresses.length === 0) return context.skip('this host has no address besides loopback')
    const args = ['mirror', '--listen', '0.0.0.0:0', '--store', path.join(folder, 'open'), '--upstream', registry.url]
    const open = await start(binary('watchfire'), args, /^Mirroring on http:\/\/0\.0\.0\.0:(\d+) until/)
    try {
      const other = `http://${addresses[0].address}:${open.port}`
      const refused = await fetch(`${other}/status`)
      assert.equal(refused.status, 403)
      assert.match((await refused.json()).errors[0].message, /only programs on the host of the mirror get it/)
      assert.equal((await fetch(`${other}/metrics`)).status, 200)
      const shown = await run('status', '--mirror', other)
      assert.equal(shown.code, 1)
      assert.match(shown.stderr, /403 Forbidden: cannot show the status to/)
      assert.equal((await status(open)).fleet, null)
    } finally {
      await open.stop()
    }
  })
})

describe('a web page that makes its own name lead to this host', () => {
  /** Asks for the status with a Host header, which `fetch` does not let a caller set. */
  const statusAt = (host) => requestExactly(mirror, '/status', { headers: { host } })

  it('does not see the status, and programs of this host do', async () => {
    for (const host of [`127.0.0.1:${mirror.port}`, `localhost:${mirror.port}`, '[::1]'])
      assert.equal((await statusAt(host)).status, 200, host)
    for (const host of [`page.example:${mirror.port}`, 'localhost.page.example', '127.0.0.1.page.example']) {
      const { status, bytes } = await statusAt(host)
      assert.equal(status, 403, host)
      assert.match(JSON.parse(bytes).errors[0].message, /use an IP address or localhost/)
    }
  })
})

describe('the status of a fleet', () => {
  it('names the hosts that were asked for a blob, with their answers', async () => {
    const key = path.join(folder, 'fleet.key')
    writeFileSync(key, (await run('key')).stdout)
    const join = async (name, args) => {
      const options = ['--upstream', `${REGISTRY}=${faulty.url}`, '--peer-listen', '127.0.0.1:0', '--fleet-key', key, ...args]
      return startMirror(path.join(folder, name), options)
    }
    const first = await join('first', [])
    const [, port] = /\/tcp\/(\d+)/.exec((await status(first)).fleet.addresses[0])
    const second = await join('second', ['--join', `127.0.0.1:${port}`])
    const fresh = makeImage([16 * MIB])
    await push(registry, 'team/fleet', 'v1', fresh)
    const [layer] = fresh.layers
    const hold = holdBack(layer)
    try {
      const mirrors = [first, second]
      const areConnected = async () => (await Promise.all(mirrors.map(status))).every(({ fleet }) => fleet.known_hosts === 1)
      await waitUntil(areConnected, 'the mirrors know each other')
      const loading = mirrors.map((one) => run('preload', '--mirror', url(one), `${REGISTRY}/team/fleet:v1`))
      const told = async () => {
        const reports = await Promise.all(mirrors.map(status))
        const running = reports.flatMap((report) => report.running).filter((one) => one.digest === digestOf(layer))
        return running.find(
          ({ hosts, host_bytes: bytes }) => bytes > 0 && hosts.some(({ answer, count }) => answer === 'hashes' && count > 0),
        )
      }
      const { hosts } = await waitUntil(told, 'a mirror tells which host it asked')
      const reports = await Promise.all(mirrors.map(status))
      assert.equal(hosts.length, 1)
      assert.ok(reports.some(({ fleet }) => fleet.peer_id === hosts[0].id))
      const shown = await Promise.all(mirrors.map((one) => run('status', '--mirror', url(one))))
      assert.ok(
        shown.some(({ stdout }) => /^ {4}asked \/ip4\/127\.0\.0\.1\/tcp\/\d+.*: knows \d+ blocks$/m.test(stdout)),
        shown[0].stdout + shown[1].stdout,
      )
      hold.release()
      for (const { code, stderr } of await Promise.all(loading)) assert.equal(code, 0, stderr)
      const ended = await Promise.all(mirrors.map(status))
      assert.ok(ended.reduce((sum, report) => sum + report.downloads.host_bytes, 0) > 0)
    } finally {
      hold.release()
      await Promise.all([first.stop(), second.stop()])
    }
  })
})

describe('metrics', () => {
  it('are OpenMetrics without names of images', async () => {
    await preload(`${REGISTRY}/team/app:v1`)
    const found = await metrics()
    const report = await status()
    assert.equal(found.watchfire_mirror_registry_bytes_total, report.downloads.registry_bytes)
    assert.equal(found.watchfire_mirror_store_bytes, report.store.bytes)
    assert.equal(found.watchfire_mirror_completed_downloads_total, report.downloads.completed)
    assert.equal(found['watchfire_mirror_requests_total{kind="blob",source="store"}'], report.requests.blobs.store)
    assert.equal(found['watchfire_mirror_requests_total{kind="manifest",source="registry"}'], report.requests.manifests.registry)
    assert.ok(!JSON.stringify(found).includes('team'))
  })
})
