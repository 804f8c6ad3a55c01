// Starts our binaries as a stranger would: a child process, a free port, the line it prints.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { within } from './waiting.mjs'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const READY = /^The fire burns at https?:\/\/localhost:(\d+)$/
const START_MS = 20_000
const STOP_MS = 20_000

/** How many processes a server has unless a test says otherwise. */
export const processesOfAll = Number(process.env.INTEROP_PROCESSES ?? 1)

/** `examples/chat`. Its settings are the defaults; only port and processes can be chosen. */
export function startChat({ port = 0, processes = processesOfAll } = {}) {
  return start(binary('chat'), [String(port), String(processes)], /^chat listens on ws:\/\/127\.0\.0\.1:(\d+)\/socket$/)
}

/** The whole server. `settings` are `--set` assignments, such as `{ 'socket.idle_timeout': '1s' }`. */
export function startWatchfire({ port = 0, settings = {}, processes = processesOfAll } = {}) {
  const sets = Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`])
  const args = ['serve', '--listen', `127.0.0.1:${port}`, '--processes', String(processes), ...sets]
  return start(binary('watchfire'), args, READY)
}

/** Where `cargo build` left a program; release before debug. */
export function binary(name) {
  const { WATCHFIRE_BIN_DIR, CARGO_TARGET_DIR } = process.env
  const targets = [CARGO_TARGET_DIR, path.join(REPOSITORY, 'target')].filter(Boolean)
  const folders = targets.flatMap((target) => ['release', 'debug'].map((kind) => path.join(target, kind)))
  const candidates = [WATCHFIRE_BIN_DIR, ...folders].filter(Boolean).map((folder) => path.join(folder, name))
  const found = candidates.find((candidate) => existsSync(candidate))
  assert(found, `${name} is not built; looked for ${candidates.join(', ')}`)
  return found
}

async function start(program, args, pattern) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: environment() })
  const server = new Server(child)
  const listening = new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      server.lines.push(line)
      const match = pattern.exec(line)
      if (match) resolve(Number(match[1]))
    })
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`${program} ended with ${code}: ${server.stderr}`)))
  })
  try {
    server.port = await within(listening, `${path.basename(program)} says where it listens`, START_MS)
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  return server
}

/** Ours without what the server would take for its settings. */
function environment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('WATCHFIRE_')))
}

/** A running server of ours. */
export class Server {
  port = 0
  lines = []
  stderr = ''
  #child
  #exited

  constructor(child) {
    this.#child = child
    child.stderr.setEncoding('utf8').on('data', (text) => (this.stderr += text))
    this.#exited = new Promise((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal }))
      child.once('error', (error) => resolve({ code: null, signal: null, error }))
    })
  }

  get pid() {
    return this.#child.pid
  }

  /** The processes that serve, when there are several. */
  workers() {
    return readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
  }

  get isRunning() {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** What a Phoenix client takes as its endpoint. */
  get endpoint() {
    return `ws://127.0.0.1:${this.port}/socket`
  }

  http(pathname) {
    return `http://127.0.0.1:${this.port}${pathname}`
  }

  /** The memory that its processes really hold, in bytes. */
  residentBytes() {
    const of = (pid) => Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024
    return [this.pid, ...this.workers()].map(of).reduce((sum, bytes) => sum + bytes)
  }

  /** The sum of a metric over its labels; with `label`, such as `cause="slow"`, only of that one. */
  async metric(name, label = '') {
    const text = await (await fetch(this.http('/metrics'))).text()
    const lines = text.split('\n').filter((line) => /^[^#{ ]+/.exec(line)?.[0] === name)
    return lines.filter((line) => line.includes(label)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  }

  /** Ask it to stop, as systemd would; it drains first. */
  terminate() {
    this.#child.kill('SIGTERM')
  }

  exited() {
    return within(this.#exited, 'the server ends', STOP_MS)
  }

  /** Stop it, and hold it to having ended well: drained, with code 0, and without a panic. */
  async stop() {
    try {
      if (this.isRunning) this.terminate()
      const { code, signal } = await this.exited()
      assert.doesNotMatch(this.stderr, /panicked/, 'the server panicked')
      assert.deepEqual({ code, signal }, { code: 0, signal: null }, this.stderr)
    } finally {
      this.kill()
    }
  }

  /** End it at once, as a power cut would. */
  kill() {
    if (this.isRunning) this.#child.kill('SIGKILL')
  }
}
