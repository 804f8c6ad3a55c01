// The container image, run by containerd and runc as Debian ships them: what is in it, and a page through it.

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, it } from 'node:test'

import { waitUntil, withTimeout } from '../interop/lib/deadlines.mjs'
import { NetworkNamespace, shareAndOpen } from './lib/network-namespace.mjs'
import { endingAfterAll, image, run, temporaryFolder, version } from './lib/packed.mjs'

const BYTES_MAX = 40_000_000
const USER = 65532
/** The files that a program other than a package manager finds in the image. */
const LIBRARIES = ['ld-linux-x86-64.so.2', 'libc.so.6', 'libgcc_s.so.1', 'libm.so.6']
const START_MS = 30_000
const NAME = `docker.io/library/watchfire:${version}`

const atEnd = endingAfterAll()

describe('the image', () => {
  it(`has at most ${BYTES_MAX} bytes`, (t) => {
    t.diagnostic(`${statSync(image).size} bytes`)
    assert.ok(statSync(image).size <= BYTES_MAX)
  })

  it('has the program, its libraries, certificates and licences, and no shell', () => {
    const layout = path.join(temporaryFolder(atEnd), 'layout')
    mkdirSync(layout)
    run('tar', ['--extract', `--file=${image}`, `--directory=${layout}`])
    const bundle = path.join(path.dirname(layout), 'bundle')
    run('umoci', ['unpack', '--image', `${layout}:${version}`, bundle])
    const root = path.join(bundle, 'rootfs')
    const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    const names = files.map((entry) => path.join(entry.parentPath, entry.name).slice(root.length))
    assert.deepEqual(
      names.filter((name) => statSync(path.join(root, name)).mode & 0o111 && name.includes('/bin/')),
      ['/usr/bin/watchfire'],
    )
    assert.deepEqual(
      names
        .filter((name) => /^\/lib/.test(name))
        .map((name) => path.basename(name))
        .sort(),
      LIBRARIES,
    )
    assert.match(readFileSync(path.join(root, 'etc/ssl/certs/ca-certificates.crt'), 'utf8'), /^-----BEGIN CERTIFICATE-----$/m)
    for (const name of ['libc6', 'libgcc-s1', 'ca-certificates', 'watchfire/LICENSE-MIT']) {
      assert.ok(
        names.some((file) => file.startsWith(`/usr/share/doc/${name}`)),
        name,
      )
    }
    // Scanners read the versions here.
    assert.match(readFileSync(path.join(root, 'var/lib/dpkg/status.d/libc6'), 'utf8'), /^Version: \S+$/m)
    assert.equal(statSync(path.join(root, 'var/lib/watchfire')).uid, USER)
  })
})

describe('a container with a read-only root', () => {
  let containerd
  before(async () => {
    containerd = await startContainerd()
    containerd.ctr('image', 'import', image)
  })

  it('runs as a user without privileges, and serves a page behind Caddy', async () => {
    const server = await containerd.start('server', [])
    const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
    assert.match(status, new RegExp(`^Uid:\\t${USER}\\t${USER}\\t`, 'm'))
    assert.match(status, /^CapEff:\t0+$/m)
    assert.match(status, /^NoNewPrivs:\t1$/m)

    const namespace = new NetworkNamespace(server.pid)
    startCaddy(namespace, ['reverse-proxy', '--from', 'localhost', '--to', '127.0.0.1:4000'])
    await namespace.answers('https://localhost/healthz', START_MS)
    await shareAndOpen(await namespace.launchBrowser(atEnd), 'https://localhost')
    assert.equal(await server.stop(), 0, 'the server drains and ends')
  })

  it('listens on the PORT of the platform, and its health check follows', async () => {
    const server = await containerd.start('port', ['--env', 'PORT=8080'])
    const namespace = new NetworkNamespace(server.pid)
    await namespace.answers('http://localhost:8080/healthz')
    const output = containerd.ctr('task', 'exec', '--exec-id', 'health', 'port', '/usr/bin/watchfire', 'health')
    assert.equal(output, 'http://127.0.0.1:8080 is healthy\n')
    assert.equal(await server.stop(), 0)
  })

  it('names the setting that a misspelt variable meant', () => {
    const { status, stderr } = containerd.tryRun('typo', ['--env', 'WATCHFIRE_LIMTS_PEERS_PER_PAGE_MAX=5'])
    assert.notEqual(status, 0)
    assert.match(stderr, /did you mean `WATCHFIRE_LIMITS_PEERS_PER_PAGE_MAX`\?/)
  })
})

/** Caddy as `docker run caddy:2 caddy …` runs it, in the network namespace of the server. */
function startCaddy(namespace, args) {
  const folder = temporaryFolder(atEnd)
  const [program, ...rest] = namespace.command('caddy', ...args)
  const env = { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const child = spawn(program, rest, { stdio: 'ignore', env })
  atEnd(() => child.kill('SIGKILL'))
}

/** A containerd of our own, with all of its files in one folder. */
async function startContainerd() {
  const folder = temporaryFolder(atEnd)
  const socket = path.join(folder, 'containerd.sock')
  const config = path.join(folder, 'config.toml')
  writeFileSync(
    config,
    `version = 2
root = "${folder}/root"
state = "${folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
address = "${socket}"
[ttrpc]
address = "${folder}/ttrpc.sock"
[debug]
address = "${folder}/debug.sock"
`,
  )
  const child = spawn('containerd', ['--config', config], { stdio: 'ignore' })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  atEnd(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const ctr = (...args) => run('ctr', ['--address', socket, ...args])
  const runArgs = (id, options) => ['--address', socket, 'run', '--rm', '--cgroup', '', '--read-only', ...options, NAME, id]
  await waitUntil(() => existsSync(socket) && spawnSync('ctr', ['--address', socket, 'version']).status === 0, 'containerd answers')
  return {
    ctr,
    /** Runs a container to its end. */
    tryRun: (id, options) => spawnSync('ctr', runArgs(id, options), { encoding: 'utf8', timeout: START_MS }),
    /** Starts a container, and waits until its server has started. */
    async start(id, options) {
      const container = spawn('ctr', runArgs(id, options), { stdio: ['ignore', 'pipe', 'inherit'] })
      const exited = new Promise((resolve) => container.once('exit', resolve))
      atEnd(() => container.kill('SIGKILL'))
      const ready = new Promise((resolve, reject) => {
        container.stdout.setEncoding('utf8').on('data', (text) => /Watchfire is running at/.test(text) && resolve(null))
        exited.then((code) => reject(new Error(`the container ended with ${code}`)))
      })
      await withTimeout(ready, 'the container starts', START_MS)
      const row = ctr('task', 'ls')
        .split('\n')
        .find((line) => line.startsWith(`${id} `))
      return {
        pid: Number(row.split(/\s+/)[1]),
        async stop() {
          ctr('task', 'kill', '--signal', 'SIGTERM', id)
          return withTimeout(exited, 'the container ends', START_MS)
        },
      }
    },
  }
}
