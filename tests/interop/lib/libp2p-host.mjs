// Our libp2p host as a child process that takes commands: crates/p2p/examples/host.rs.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

import { binary } from './server.mjs'
import { withTimeout } from './deadlines.mjs'

const REPLY_MS = 120_000
/** Characters of the host's standard error that an error message includes. */
const STDERR_CHARS = 20_000
const LOOPBACK = ['--listen', '/ip4/127.0.0.1/tcp/0']

/** A running libp2p host. */
export class Libp2pHost {
  #child
  #exited
  #replies = []
  stderr = ''
  /** Its id, and its addresses. */
  peer
  addresses
  address

  /** `args` are the arguments of the program; without `--listen` it listens on loopback. */
  static async start(...args) {
    const host = new Libp2pHost()
    const listening = args.includes('--listen') ? [] : LOOPBACK
    const child = spawn(binary('examples/host'), [...listening, ...args], { stdio: 'pipe' })
    host.#child = child
    child.stderr.setEncoding('utf8').on('data', (text) => (host.stderr += text))
    host.#exited = new Promise((resolve) => child.once('close', resolve))
    createInterface({ input: child.stdout }).on('line', (line) => host.#replies.shift()?.resolve(JSON.parse(line)))
    child.once('close', (code) => {
      for (const { reject } of host.#replies.splice(0)) reject(new Error(`the host ended with ${code}: ${host.stderr}`))
    })
    const { peer, addresses } = await host.#nextReply('the host reports its addresses')
    Object.assign(host, { peer, addresses, address: addresses[0] })
    return host
  }

  #nextReply(what) {
    const reply = new Promise((resolve, reject) => this.#replies.push({ resolve, reject }))
    // With RUST_LOG set, standard error has the host's log.
    return withTimeout(reply, what, REPLY_MS).catch((error) => {
      error.message += `; standard error: ${this.stderr.slice(-STDERR_CHARS)}`
      throw error
    })
  }

  /** Sends a command and returns its reply; replies arrive in the order of the commands. */
  async command(...words) {
    const reply = this.#nextReply(words.join(' '))
    this.#child.stdin.write(`${words.join(' ')}\n`)
    const { error, ...rest } = await reply
    if (error !== undefined) throw new Error(`${words.join(' ')}: ${error}`)
    return rest
  }

  /** Peak memory of the process, in bytes. */
  peakBytes() {
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.#child.pid}/status`, 'utf8'))[1]) * 1024
  }

  /** Stops the host and asserts a clean exit. */
  async stop() {
    this.#child.stdin.end()
    try {
      assert.equal(await withTimeout(this.#exited, 'the host ends', REPLY_MS), 0, this.stderr)
      assert.doesNotMatch(this.stderr, /panicked/, 'the host panicked')
    } finally {
      if (this.#child.exitCode === null) this.#child.kill('SIGKILL')
    }
  }
}
