// A server that is upgraded while it serves: the program on disk is replaced, and SIGUSR2 starts it.

import { copyFile, rename } from 'node:fs/promises'
import path from 'node:path'

import { waitUntil } from '../lib/deadlines.mjs'
import { start } from '../lib/server.mjs'
import { children, isRunning, residentBytes } from './memory.mjs'

const UPGRADE_MS = 120_000
const STOP_MS = 60_000

export class UpgradedServer {
  #started
  #program
  /** The processes that serve: the last one takes new connections, and those before it drain. */
  #pids

  /** Starts a copy of a program in this folder, on a free port. */
  static async start(folder, program) {
    const server = new UpgradedServer()
    server.#program = path.join(folder, 'watchfire')
    await server.#install(program)
    server.#started = await start(
      server.#program,
      ['serve', '--listen', '127.0.0.1:0'],
      /^Watchfire is running at http:\/\/localhost:(\d+)$/,
    )
    server.#pids = [server.#started.pid]
    return server
  }

  get port() {
    return this.#started.port
  }

  get pid() {
    return this.#pids.at(-1)
  }

  /** Memory of all processes that serve, in bytes. */
  residentBytes() {
    this.#pids = this.#pids.filter((pid) => pid === this.pid || isRunning(pid))
    return this.#pids.reduce((sum, pid) => sum + residentBytes(pid), 0)
  }

  /** Fails if the server has ended. */
  assertRunning() {
    if (!isRunning(this.pid)) throw new Error(`the server has ended: ${this.#started.stderr.slice(-2000)}`)
  }

  /** Replaces the program, and resolves when the new one serves and the old one has ended. */
  async upgrade(program) {
    this.assertRunning()
    await this.#install(program)
    const old = this.pid
    const before = children(old)
    process.kill(old, 'SIGUSR2')
    const started = () => children(old).find((pid) => !before.includes(pid))
    const successor = await waitUntil(started, () => `the new program starts: ${this.#started.stderr.slice(-2000)}`, UPGRADE_MS)
    this.#pids.push(successor)
    await waitUntil(() => !isRunning(old), 'the old program ends', UPGRADE_MS)
    this.assertRunning()
  }

  async stop() {
    for (const pid of this.#pids.filter(isRunning)) process.kill(pid, 'SIGTERM')
    await waitUntil(() => !this.#pids.some(isRunning), 'the server ends', STOP_MS)
  }

  /** A program that runs cannot be written, so another file takes its place. */
  async #install(program) {
    await copyFile(program, `${this.#program}.new`)
    await rename(`${this.#program}.new`, this.#program)
  }
}
