// Container engines pull through the mirror with the files that `watchfire mirror configure` wrote. Each engine sees the files
// at the paths where it looks for them, in a mount namespace. So the tests need root, as containerd does.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { Containerd } from '../lib/containerd.mjs'
import { withTimeout } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { run } from '../lib/program.mjs'
import { FaultyRegistry, Registry, makeImage, push } from '../lib/registry.mjs'
import { binary, startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
/** The first and the second registry of the mirror. They exist only as names. */
const [FIRST, SECOND] = ['first.example', 'second.example']
/** Mounts the folder `etc/NAME` of a root over that of this machine, and runs a program. */
const BIND = 'mount --bind "$1/etc/$2" "/etc/$2" && shift 2 && exec "$@"'

const folder = newFolder()
let registry
let upstream
let mirror
let number = 0

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
  upstream = await FaultyRegistry.start(registry)
  const upstreams = [FIRST, SECOND].flatMap((name) => ['--upstream', `${name}=${upstream.url}`])
  mirror = await startMirror(path.join(folder, 'store'), upstreams)
})

after(async () => {
  await mirror?.stop()
  await upstream?.stop()
  await registry?.stop()
})

/** The root folder of a host. */
function newRoot() {
  const root = path.join(folder, `root-${number++}`)
  mkdirSync(root)
  return root
}

/** The words of a command for `engine`. */
const words = (root, engine, ...options) => ['mirror', 'configure', engine, '--root', root, ...options]
const mirrorUrl = () => `http://127.0.0.1:${mirror.port}`
const configure = (root, engine, ...options) => run(binary('watchfire'), words(root, engine, '--yes', ...options))
const within = (root, name) => ['unshare', '--mount', 'sh', '-c', BIND, 'sh', root, name]

/** Pushes an image for a test; returns its name without the registry. */
async function newImage() {
  const name = `team/app-${number++}`
  await push(registry, name, 'v1', makeImage([MIB, 1000]))
  return `${name}:v1`
}

/** How often the mirror asked the registry for the manifest of an image. */
const manifestRequests = (image) => {
  const [name, tag] = image.split(':')
  return upstream.requests.filter(({ url }) => url.startsWith(`/v2/${name}/manifests/${tag}`)).length
}

describe('containerd', () => {
  let root
  let containerd
  const etc = () => path.join(root, 'etc/containerd')

  before(async () => {
    root = newRoot()
    containerd = await Containerd.start(etc(), {
      disabled: ['io.containerd.internal.v1.opt'],
      beforeStart: async () => void (await configure(root, 'containerd', '--mirror', mirrorUrl())),
      within: within(root, 'containerd'),
    })
  })

  after(() => containerd?.stop())

  it('pulls for Kubernetes from every registry of the mirror', async () => {
    for (const name of [FIRST, SECOND]) {
      const image = await newImage()
      assert.match(await containerd.pullAsKubernetes(`${name}/${image}`), /^sha256:[0-9a-f]{64}$/)
      assert.ok(manifestRequests(image) > 0)
    }
  })

  it('pulls for nerdctl and ctr', async () => {
    const image = await newImage()
    await containerd.pull(`${FIRST}/${image}`, { hosts: path.join(etc(), 'certs.d') })
    assert.ok(manifestRequests(image) > 0)
  })

  it('pulls from the registry itself when no mirror runs', async () => {
    const other = newRoot()
    await configure(other, 'containerd', '--mirror', 'http://127.0.0.1:1')
    const image = await newImage()
    await containerd.ctr(
      'images',
      'pull',
      '--plain-http',
      '--hosts-dir',
      path.join(other, 'etc/containerd/certs.d'),
      `127.0.0.1:${registry.port}/${image}`,
    )
    assert.equal(manifestRequests(image), 0)
  })

  it('asks the mirror only by digest with --pull-only', async () => {
    const other = newRoot()
    await configure(other, 'containerd', '--mirror', mirrorUrl(), '--pull-only')
    const image = await newImage()
    // The registry is only a name, so the tag cannot be resolved.
    await assert.rejects(containerd.pull(`${FIRST}/${image}`, { hosts: path.join(other, 'etc/containerd/certs.d') }), /first\.example/)
    assert.equal(manifestRequests(image), 0)
  })

  it('no longer pulls through the mirror after --undo, which keeps the settings of the daemon', async () => {
    await containerd.stop()
    containerd = undefined
    await run(binary('watchfire'), words(root, 'containerd', '--undo', '--yes'))
    const text = readFileSync(path.join(etc(), 'config.toml'), 'utf8')
    assert.doesNotMatch(text, /config_path/)
    assert.ok(!existsSync(path.join(etc(), 'certs.d')))
    containerd = await Containerd.start(etc(), { disabled: ['io.containerd.internal.v1.opt'], within: within(root, 'containerd') })
    assert.equal(readFileSync(path.join(etc(), 'config.toml'), 'utf8'), text, 'the text is that before `configure`')
    await assert.rejects(containerd.pullAsKubernetes(`${FIRST}/${await newImage()}`), /first\.example/)
  })
})

describe('a containerd that imports its settings', () => {
  const IMPORTS = 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
  const PLUGIN = '[plugins."io.containerd.grpc.v1.cri".'

  /** A host whose config.toml imports a file with this text. */
  function importing(text) {
    const root = newRoot()
    mkdirSync(path.join(root, 'etc/containerd/conf.d'), { recursive: true })
    writeFileSync(path.join(root, 'etc/containerd/config.toml'), IMPORTS)
    writeFileSync(path.join(root, 'etc/containerd/conf.d/site.toml'), `version = 2\n${text}`)
    return root
  }

  /** The folder of hosts.toml that containerd uses. */
  async function usedPath(root) {
    const [program, ...args] = [...within(root, 'containerd'), 'containerd', 'config', 'dump']
    const { stdout } = await run(program, args)
    return /^ *config_path = "(.*)"$/m.exec(stdout)[1]
  }

  it('keeps the folder that an imported file sets, and gets the hosts there', async () => {
    const root = importing(`${PLUGIN}registry]\nconfig_path = "/etc/containerd/site"\n`)
    const { stdout } = await configure(root, 'containerd', '--mirror', mirrorUrl())
    assert.match(stdout, /Note: \/etc\/containerd\/conf\.d\/site\.toml sets config_path/)
    assert.equal(readFileSync(path.join(root, 'etc/containerd/config.toml'), 'utf8'), IMPORTS)
    assert.match(readFileSync(path.join(root, 'etc/containerd/site/_default/hosts.toml'), 'utf8'), /127\.0\.0\.1/)
    assert.equal(await usedPath(root), '/etc/containerd/site')
  })

  it('has its own folder if the imported files set nothing of the plugin', async () => {
    const root = importing('[debug]\nlevel = "info"\n')
    const { stdout } = await configure(root, 'containerd', '--mirror', mirrorUrl())
    assert.doesNotMatch(stdout, /Note/)
    assert.equal(await usedPath(root), '/etc/containerd/certs.d')
  })

  it('is told that version 1 does not join the settings of two files', async () => {
    const root = importing(`${PLUGIN}containerd]\ndefault_runtime_name = "other"\n`)
    const { stdout } = await configure(root, 'containerd', '--mirror', mirrorUrl())
    assert.match(stdout, /Note: .*site\.toml has settings of the CRI plugin too\. containerd 1 reads only those/)
    assert.equal(await usedPath(root), '')
  })
})

describe('podman, buildah and skopeo', () => {
  let root

  before(async () => {
    root = newRoot()
    mkdirSync(path.join(root, 'etc/containers'), { recursive: true })
    writeFileSync(path.join(root, 'etc/containers/policy.json'), JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] }))
    // The order is not that of the mirror.
    await configure(root, 'podman', '--mirror', mirrorUrl(), '--registry', SECOND, '--registry', FIRST)
  })

  const clients = {
    podman: (work, image) => [
      'podman',
      '--root',
      `${work}/root`,
      '--runroot',
      `${work}/run`,
      '--storage-driver',
      'vfs',
      '--cgroup-manager',
      'cgroupfs',
      'pull',
      image,
    ],
    buildah: (work, image) => ['buildah', '--root', `${work}/root`, '--runroot', `${work}/run`, '--storage-driver', 'vfs', 'pull', image],
    skopeo: (work, image) => ['skopeo', 'copy', `docker://${image}`, `oci:${work}/image:v1`],
  }

  async function pull(client, image) {
    const work = newRoot()
    const [program, ...args] = [...within(root, 'containers'), ...clients[client](work, image)]
    // Settings of the user would come before those of the host.
    await run(program, args, { env: { ...process.env, HOME: work, XDG_CONFIG_HOME: work, XDG_RUNTIME_DIR: work } })
  }

  for (const client of Object.keys(clients)) {
    it(`${client} pulls from every registry that was named`, async () => {
      for (const name of [FIRST, SECOND]) {
        const image = await newImage()
        await pull(client, `${name}/${image}`)
        assert.ok(manifestRequests(image) > 0)
      }
    })
  }

  it('do not pull through the mirror after --undo', async () => {
    await run(binary('watchfire'), words(root, 'podman', '--undo', '--yes'))
    await assert.rejects(pull('skopeo', `${FIRST}/${await newImage()}`), /first\.example/)
  })
})

describe('a terminal', () => {
  /** Answers the question on a terminal; resolves to the exit code and what the terminal shows. */
  async function answer(text, root, ...options) {
    const command = [binary('watchfire'), ...words(root, 'podman', ...options)].map((word) => `'${word}'`).join(' ')
    const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] })
    let shown = ''
    const asked = new Promise((resolve) => {
      child.stdout.setEncoding('utf8').on('data', (chunk) => {
        shown += chunk
        if (shown.includes('Apply? [y/N] ')) resolve(null)
      })
    })
    const ended = new Promise((resolve) => child.once('close', resolve))
    await withTimeout(asked, 'the command asks')
    child.stdin.write(`${text}\n`)
    return { code: await withTimeout(ended, 'the command ends'), shown }
  }

  it('shows the changes and asks before they are applied', async () => {
    const root = newRoot()
    const file = path.join(root, 'etc/containers/registries.conf.d/50-watchfire-mirror.conf')
    for (const text of ['', 'n', 'other']) {
      const { code, shown } = await answer(text, root)
      assert.equal(code, 1)
      assert.match(shown, /\+prefix = "docker\.io"/)
      assert.match(shown, /Nothing was changed\./)
      assert.ok(!existsSync(file))
    }
    assert.equal((await answer('y', root)).code, 0)
    assert.match(readFileSync(file, 'utf8'), /docker\.io/)
    assert.equal((await answer('yes', root, '--undo')).code, 0)
    assert.ok(!existsSync(path.join(root, 'etc')))
  })
})
