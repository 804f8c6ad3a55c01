// Our libp2p host as a child process that is told what to do: crates/p2p/examples/host.rs.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { binary } from './server.mjs'
import { within } from './waiting.mjs'

const ANSWER_MS = 120_000
/** Of what the host wrote to its standard error, as much as an error tells. */
const STDERR_CHARS = 20_000
const LOOPBACK = ['--listen', '/ip4/127.0.0.1/tcp/0']

/** A host of ours that runs. */
export class Host {
  static program = 'host'
  /** What it is told where nothing else is said. */
  static usual = (args) => (args.includes('--listen') ? [] : LOOPBACK)
  #child
  #exited
  #answers = []
  stderr = ''

  /** `args` are those of the program; without `--listen` among them it listens on loopback. */
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
    // With RUST_LOG set, what it did until then is the evidence.
    return within(answer, what, ANSWER_MS).catch((error) => {
      error.message += `; the host said: ${this.stderr.slice(-STDERR_CHARS)}`
      throw error
    })
  }

  /** What it answers; answers come in the order of the commands. */
  async tell(...words) {
    const answer = this.#answer(words.join(' '))
    this.#child.stdin.write(`${words.join(' ')}\n`)
    const { error, ...rest } = await answer
    if (error !== undefined) throw new Error(`${words.join(' ')}: ${error}`)
    return rest
  }

  /** The most memory that it ever held, in bytes. */
  peakBytes() {
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.#child.pid}/status`, 'utf8'))[1]) * 1024
  }

  /** Stop it, and hold it to having ended well. */
  async stop() {
    this.#child.stdin.end()
    try {
      assert.equal(await within(this.#exited, 'the host ends', ANSWER_MS), 0, this.stderr)
      assert.doesNotMatch(this.stderr, /panicked/, 'the host panicked')
    } finally {
      if (this.#child.exitCode === null) this.#child.kill('SIGKILL')
    }
  }
}

/** A peer made by hand that dials whom it is given, and says what it is told: crates/p2p/examples/raw_peer.rs. */
export class RawPeer extends Host {
  static program = 'raw_peer'
  static usual = () => []

  want(kind, ...cids) {
    return this.tell('want', kind, ...cids)
  }

  cancel(...cids) {
    return this.tell('cancel', ...cids)
  }

  /** All that it hears until something answers for this block: `{ haves, dont_haves, blocks, bytes }`. */
  hear(cid) {
    return this.tell('hear', cid)
  }
  /** All that it hears until that is so many presences and blocks. */
  count(answers) {
    return this.tell('count', answers)
  }
}
