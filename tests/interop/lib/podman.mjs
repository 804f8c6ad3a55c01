// Podman with all of its files in one folder.

import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { run } from './program.mjs'

const POLICY = JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] })

export class Podman {
  #folder
  #within

  /** `within` is a command that runs the program which its arguments name. */
  constructor(folder, { within = [] } = {}) {
    mkdirSync(folder, { recursive: true })
    this.#folder = folder
    this.#within = within
    writeFileSync(path.join(folder, 'policy.json'), POLICY)
  }

  /** Sends pulls from a registry to a mirror, which has this address. */
  useMirror(registry, address) {
    const content = `[[registry]]\nprefix = "${registry}"\nlocation = "${registry}"\n[[registry.mirror]]\nlocation = "${address}"\ninsecure = true\n`
    writeFileSync(path.join(this.#folder, 'registries.conf'), content)
  }

  /** Pulls an image, and verifies and unpacks it. */
  pull(image) {
    return this.#podman('pull', '--signature-policy', path.join(this.#folder, 'policy.json'), image)
  }

  /** The digest of an image that was pulled. */
  async digestOf(image) {
    const { stdout } = await this.#podman('image', 'inspect', '--format', '{{.Digest}}', image)
    return stdout.trim()
  }

  #podman(...args) {
    const folder = this.#folder
    const own = ['--root', `${folder}/root`, '--runroot', `${folder}/run`, '--storage-driver', 'vfs', '--cgroup-manager', 'cgroupfs']
    const env = { ...process.env, CONTAINERS_REGISTRIES_CONF: path.join(folder, 'registries.conf') }
    const [program, ...all] = [...this.#within, 'podman', ...own, ...args]
    return run(program, all, { env, timeout: 60_000 })
  }
}
