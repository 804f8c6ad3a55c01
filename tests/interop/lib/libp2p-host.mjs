// Our libp2p host as a child process that takes commands: crates/p2p/examples/host.rs.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { binary } from './server.mjs'
import { withTimeout } from './deadlines.mjs'

const ANSWER_MS = 120_000
/** Characters of the host's standard error that an error message includes. */
const STDERR_CHARS = 20_000
const LOOPBACK = ['--listen', '/ip4/127.0.0.1/tcp/0']

/** A running libp2p host. */
export class Libp2pHost {
  static program = 'host'
  /** Default arguments. */
  static usual = (args) => (args.includes('--listen') ? [] : LOOPBACK)
  #child
  #exited
  #answers = []
  stderr = ''

  /** `args` are the arguments of the program; without `--listen` it listens on loopback. */
  static async start(...args) {
    const host = new this()
    const child = spawn(binary(path.join('examples', this.program)), [...this.usual(args), ...args], { stdio: 'pipe' })
    host.#child = child
    child.stderr.setEncoding('utf8').on('data', (text) => (host.stderr += text))
    host.#exited = new Promise((resolve) => child.once('close', resolve))
    createInterface({ input: child.stdout }).on('line', (line) => host.#answers.shift()?.resolve(JSON.parse(line)))
    child.once('close', (code) => {
      for (const { reject } of host.#answers.splice(0)) reject(new Error(`the host ended with ${code}: ${host.stderr}`))
    })
    const { peer, addresses } = await host.#answer('the host says where it listens')
    Object.assign(host, { peer, addresses, address: addresses?.[0] })
    return host
  }

  #answer(what) {
    const answer = new Promise((resolve, reject) => this.#answers.push({ resolve, reject }))
    // With RUST_LOG set, the log shows what the host did before.
    return withTimeout(answer, what, ANSWER_MS).catch((error) => {
      error.message += `; the host said: ${this.stderr.slice(-STDERR_CHARS)}`
      throw error
    })
  }

  /** Sends a command and returns its reply; replies arrive in the order of the commands. */
  async command(...words) {
    const answer = this.#answer(words.join(' '))
    this.#child.stdin.write(`${words.join(' ')}\n`)
    const { error, ...rest } = await answer
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
      assert.equal(await withTimeout(this.#exited, 'the host ends', ANSWER_MS), 0, this.stderr)
      assert.doesNotMatch(this.stderr, /panicked/, 'the host panicked')
    } finally {
      if (this.#child.exitCode === null) this.#child.kill('SIGKILL')
    }
  }
}

/** A peer that sends exactly the messages it is commanded to: crates/p2p/examples/raw_peer.rs. */
export class RawPeer extends Libp2pHost {
  static program = 'raw_peer'
  static usual = () => []

  want(kind, ...cids) {
    return this.command('want', kind, ...cids)
  }

  cancel(...cids) {
    return this.command('cancel', ...cids)
  }

  /** Everything received until there is a reply for this block: `{ haves, dont_haves, blocks, bytes }`. */
  receiveUntil(cid) {
    return this.command('hear', cid)
  }
  /** Everything received until it contains that many presences and blocks. */
  count(answers) {
    return this.command('count', answers)
  }
}
