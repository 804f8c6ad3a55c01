// Debian's containerd with all of its files in one folder.

import { execFile, spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { SOON_MS, waitUntil, withTimeout } from './deadlines.mjs'

const run = promisify(execFile)
const DISABLED = ['io.containerd.grpc.v1.cri', 'io.containerd.internal.v1.opt']
const SNAPSHOTTERS = ['aufs', 'btrfs', 'devmapper', 'zfs'].map((name) => `io.containerd.snapshotter.v1.${name}`)

export class Containerd {
  #child
  #ended
  #folder
  stderr = ''

  static async start(folder) {
    mkdirSync(folder, { recursive: true })
    const list = [...DISABLED, ...SNAPSHOTTERS].map((name) => `"${name}"`).join(', ')
    writeFileSync(
      path.join(folder, 'config.toml'),
      `version = 2
root = "${folder}/root"
state = "${folder}/state"
disabled_plugins = [${list}]
[grpc]
address = "${folder}/containerd.sock"
[ttrpc]
address = "${folder}/ttrpc.sock"
[debug]
address = "${folder}/debug.sock"
`,
    )
    const child = spawn('containerd', ['-c', path.join(folder, 'config.toml')], { stdio: ['ignore', 'ignore', 'pipe'] })
    const containerd = new Containerd(child, folder)
    try {
      await waitUntil(() => containerd.#answers(), 'containerd answers')
    } catch (error) {
      await containerd.stop()
      throw new Error(`cannot start containerd: ${error.message}; \`make tools\` installs it\n${containerd.stderr}`)
    }
    return containerd
  }

  constructor(child, folder) {
    this.#child = child
    this.#folder = folder
    child.stderr.setEncoding('utf8').on('data', (text) => (this.stderr += text))
    this.#ended = new Promise((resolve) => child.once('close', resolve).once('error', resolve))
  }

  async #answers() {
    try {
      await this.ctr('version')
      return true
    } catch {
      return false
    }
  }

  /** Sends pulls from a registry to mirrors, which have an address and capabilities each. `upstream` is the registry itself. */
  useMirrors(registry, upstream, mirrors) {
    const folder = path.join(this.#folder, 'hosts.d', registry)
    mkdirSync(folder, { recursive: true })
    const hosts = mirrors.map(({ url, capabilities }) => `[host."${url}"]\ncapabilities = [${capabilities.map((one) => `"${one}"`)}]\n`)
    writeFileSync(path.join(folder, 'hosts.toml'), `server = "${upstream}"\n${hosts.join('')}`)
  }

  ctr(...args) {
    return run('ctr', ['--address', path.join(this.#folder, 'containerd.sock'), ...args], { timeout: 60_000 })
  }

  /** Pulls an image, and verifies and unpacks it. */
  pull(image) {
    return this.ctr('images', 'pull', '--hosts-dir', path.join(this.#folder, 'hosts.d'), image)
  }

  /** Removes an image and all of its content. */
  async remove(image) {
    await this.ctr('images', 'rm', '--sync', image)
  }

  async stop() {
    this.#child.kill('SIGTERM')
    try {
      await withTimeout(this.#ended, 'containerd ends', SOON_MS)
    } finally {
      this.#child.kill('SIGKILL')
    }
  }
}
