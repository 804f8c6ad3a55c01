// olareg, a registry with the referrers API of OCI 1.1. It keeps its content in memory.

import { spawn } from 'node:child_process'

import { SOON_MS, waitUntil, withTimeout } from './deadlines.mjs'
import { listeningPorts } from './listening-ports.mjs'
import { mirrorTools } from './mirror-tools.mjs'

export class Olareg {
  #child
  #ended
  #output = ''

  static async start() {
    const [port] = await listeningPorts(1)
    const olareg = new Olareg(port)
    await waitUntil(() => olareg.#answers(), 'olareg answers')
    return olareg
  }

  constructor(port) {
    this.port = port
    const args = ['serve', '--addr', '127.0.0.1', '--port', String(port), '--store-type', 'mem']
    this.#child = spawn(mirrorTools.olareg, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream.on('data', (text) => (this.#output += text))
    this.#ended = new Promise((resolve) => this.#child.once('close', resolve).once('error', resolve))
  }

  get url() {
    return `http://127.0.0.1:${this.port}`
  }

  async #answers() {
    if (this.#child.exitCode !== null) throw new Error(`olareg ended with ${this.#child.exitCode}: ${this.#output}`)
    return fetch(`${this.url}/v2/`).then(
      ({ ok }) => ok,
      () => false,
    )
  }

  async stop() {
    this.#child.kill('SIGTERM')
    await withTimeout(this.#ended, 'olareg ends', SOON_MS)
  }
}
