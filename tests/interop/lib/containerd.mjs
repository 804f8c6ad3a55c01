// containerd with all of its files in one folder: that of Debian, or containerd 2.

import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { pullImage } from './cri.mjs'
import { mirrorTools } from './mirror-tools.mjs'
import { Program, run } from './program.mjs'

const DISABLED = ['io.containerd.grpc.v1.cri', 'io.containerd.internal.v1.opt']
/** Longer than any pull takes on a busy machine, and than containerd waits for a mirror that never answers. */
const CTR_MS = 120_000
/** containerd 2 prints its progress also when no terminal shows it. */
const OUTPUT_BYTES_MAX = 256 << 20
const DEBIAN = { containerd: 'containerd', ctr: 'ctr' }
/** containerd 2, which `buildMirrorTools` builds. */
export const VERSION_2 = { containerd: mirrorTools.containerd2, ctr: mirrorTools.ctr2 }
const SNAPSHOTTERS = ['aufs', 'btrfs', 'devmapper', 'zfs'].map((name) => `io.containerd.snapshotter.v1.${name}`)

export class Containerd {
  #program
  #ctr
  #folder

  /**
   * Starts containerd. `programs` are those of its version, `disabled` are its plugins that do not run, and `settings` are
   * further lines of config.toml, which `beforeStart` may change. `within` is a command that runs the program which its
   * arguments name; `ctr`, which pulls itself, runs there too.
   */
  static async start(folder, { programs = DEBIAN, disabled = DISABLED, settings = '', beforeStart = async () => {}, within = [] } = {}) {
    mkdirSync(folder, { recursive: true })
    const list = [...disabled, ...SNAPSHOTTERS].map((name) => `"${name}"`).join(', ')
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
${settings}
`,
    )
    await beforeStart()
    const [program, ...args] = [...within, programs.containerd, '-c', path.join(folder, 'config.toml')]
    const containerd = new Containerd(new Program(program, args), folder, [...within, programs.ctr])
    try {
      await containerd.#program.until(() => containerd.#answers(), 'containerd answers')
    } catch (error) {
      await containerd.stop()
      throw new Error(`cannot start containerd: ${error.message}\n${containerd.#program.output}`)
    }
    return containerd
  }

  constructor(program, folder, ctr) {
    this.#program = program
    this.#ctr = ctr
    this.#folder = folder
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
    const [program, ...all] = [...this.#ctr, '--address', path.join(this.#folder, 'containerd.sock'), ...args]
    return run(program, all, { timeout: CTR_MS, maxBuffer: OUTPUT_BYTES_MAX })
  }

  /** Pulls an image, and verifies and unpacks it. `hosts` is the folder with the files hosts.toml. */
  pull(image, { hosts = path.join(this.#folder, 'hosts.d'), options = [] } = {}) {
    return this.ctr('images', 'pull', ...options, '--hosts-dir', hosts, image)
  }

  /** Fetches and verifies the content of an image, and does not unpack it. */
  fetch(image) {
    return this.ctr('content', 'fetch', '--hosts-dir', path.join(this.#folder, 'hosts.d'), image)
  }

  /** Pulls an image as Kubernetes does, through the CRI plugin and the settings of config.toml. Returns its id. */
  pullAsKubernetes(image) {
    return pullImage(path.join(this.#folder, 'containerd.sock'), image)
  }

  /** Removes an image and all of its content. */
  async remove(image) {
    await this.ctr('images', 'rm', '--sync', image)
  }

  stop() {
    return this.#program.stop()
  }
}
