// Starts our binaries as a user does: a child process, a free port, and the address that it prints.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { waitUntil, withTimeout } from './deadlines.mjs'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const READY = /^Watchfire is running at https?:\/\/localhost:(\d+)$/
const METRICS = /etrics are at (http:\/\/127\.0\.0\.1:\d+)\/metrics$/
const START_MS = 20_000
const STOP_MS = 20_000
/** The unit of CPU time in /proc, on every Linux. */
const TICKS_PER_SECOND = 100

/** Number of server processes, unless a test chooses otherwise. */
export const processesOfAll = Number(process.env.INTEROP_PROCESSES ?? 1)

/** The setting with which `startWatchfire` has the rooms that any client may join. */
export const ROOMS = { 'channels.open_rooms': true }

/** Starts `examples/chat`. Its settings are the defaults; only port, processes and the key of the HTTP API can be chosen. */
export function startChat({ port = 0, processes = processesOfAll, apiKey = '' } = {}) {
  const env = { CHAT_API_KEY: apiKey }
  return start(binary('chat'), [String(port), String(processes)], /^chat listens on ws:\/\/127\.0\.0\.1:(\d+)\/socket$/, env)
}

/**
 * Starts the whole server. `settings` are `--set` assignments, such as `{ 'socket.idle_timeout': '1s' }`. It listens on
 * the `hosts`, all with the same port. The operator's listener has a free port. `within` is a command that runs the program
 * which its arguments name.
 */
export function startWatchfire({ port = 0, hosts = ['127.0.0.1'], settings = {}, processes = processesOfAll, within = [] } = {}) {
  const sets = Object.entries({ 'admin.listen': '127.0.0.1:0', ...settings }).flatMap(([key, value]) => ['--set', `${key}=${value}`])
  const listen = hosts.flatMap((host) => ['--listen', `${host}:${port}`])
  const [program, ...args] = [...within, binary('watchfire'), 'serve', ...listen, '--processes', String(processes), ...sets]
  return start(program, args, READY)
}

/**
 * Starts the whole server for a test that replaces it. `upgrade` lets the program on disk take over, and returns its process id while
 * both serve. Both end with the test.
 */
export async function startUpgradable(t, options) {
  const server = await startWatchfire(options)
  let successor
  t.after(async () => {
    if (successor && isRunning(successor)) {
      process.kill(successor, 'SIGTERM')
      await waitUntil(() => !isRunning(successor), 'the new program ends')
    }
    await server.stop()
  })
  const upgrade = async () => {
    const before = server.workers()
    process.kill(server.pid, 'SIGUSR2')
    successor = await waitUntil(() => server.workers().find((pid) => !before.includes(pid)), 'the new program starts')
    return successor
  }
  return { server, upgrade }
}

/** Starts `watchfire mirror` with a store in this folder. `within` is a command that runs the program which its arguments name. */
export function startMirror(store, args, { within = [] } = {}) {
  const [program, ...all] = [...within, binary('watchfire'), 'mirror', '--listen', '127.0.0.1:0', '--store', store, ...args]
  return start(program, all, /^Mirroring on http:\/\/127\.0\.0\.1:(\d+) until/)
}

/** The folders of the profiles of `cargo build` whose programs are started; the first that is built wins. */
const PROFILES = [process.env.INTEROP_PROFILE?.replace(/^dev$/, 'debug'), 'release', 'serve', 'debug'].filter(Boolean)

/** The path of a program: `WATCHFIRE_BINARY`, one in `WATCHFIRE_BIN_DIR`, or the one that cargo built. */
export function binary(name) {
  const { WATCHFIRE_BINARY, WATCHFIRE_BIN_DIR, CARGO_TARGET_DIR } = process.env
  if (name === 'watchfire' && WATCHFIRE_BINARY) return WATCHFIRE_BINARY
  const targets = [CARGO_TARGET_DIR, path.join(REPOSITORY, 'target')].filter(Boolean)
  const folders = targets.flatMap((target) => PROFILES.map((profile) => path.join(target, profile)))
  const candidates = [WATCHFIRE_BIN_DIR, ...folders].filter(Boolean).map((folder) => path.join(folder, name))
  const found = candidates.find((candidate) => existsSync(candidate))
  assert(found, `${name} is not built; looked for ${candidates.join(', ')}`)
  return found
}

/** Starts a program that prints a line with its port, which `pattern` captures. `env` has further variables. */
export async function start(program, args, pattern, env = {}) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...environment(), ...env } })
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
    server.port = await withTimeout(listening, `${path.basename(program)} prints its address`, START_MS)
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  return server
}

/** The environment without variables that the server would read as settings. */
export function environment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('WATCHFIRE_')))
}

/** Whether all threads of a process have stopped: a signal reaches one that runs on another processor a little later. */
export function isStopped(pid) {
  const states = readdirSync(`/proc/${pid}/task`).map((thread) => readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'))
  return states.every((state) => /\) T /.test(state))
}

/** The state letter of a process, such as R, T or Z; undefined if there is none. */
function stateOf(pid) {
  try {
    return /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]
  } catch {
    return undefined
  }
}

/** Whether there is a process that has not ended. */
export const isRunning = (pid) => ![undefined, 'Z', 'X'].includes(stateOf(pid))

/** A running server. */
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

  /** The worker processes, when there are several. */
  workers() {
    return readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
  }

  get isRunning() {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** The endpoint for a Phoenix client. */
  get endpoint() {
    return `ws://127.0.0.1:${this.port}/socket`
  }

  http(pathname) {
    return `http://127.0.0.1:${this.port}${pathname}`
  }

  /** A URL of the operator's listener, whose address is printed right after that of the server. */
  async admin(pathname) {
    const origin = () => this.lines.map((line) => METRICS.exec(line)?.[1]).find(Boolean)
    await waitUntil(origin, 'the server prints the address of its metrics', START_MS)
    return origin() + pathname
  }

  /** Resident memory of all its processes, in bytes. */
  residentBytes() {
    const of = (pid) => Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024
    return [this.pid, ...this.workers()].map(of).reduce((sum, bytes) => sum + bytes)
  }

  /** The CPU time that all its processes have used, in seconds. */
  cpuSeconds() {
    // After the name of the program, which may have spaces, the 12th and 13th fields are the ticks in it and in the kernel.
    const of = (pid) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ').slice(11, 13).map(Number)
    return [this.pid, ...this.workers()].flatMap(of).reduce((sum, ticks) => sum + ticks) / TICKS_PER_SECOND
  }

  /** The sum of a metric over its labels; `label`, such as `cause="slow"`, selects one. */
  async metric(name, label = '') {
    const text = await (await fetch(await this.admin('/metrics'))).text()
    const lines = text.split('\n').filter((line) => /^[^#{ ]+/.exec(line)?.[0] === name)
    return lines.filter((line) => line.includes(label)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  }

  /** Sends SIGTERM, as systemd does; the server drains first. */
  terminate() {
    this.#child.kill('SIGTERM')
  }

  exited() {
    return withTimeout(this.#exited, 'the server ends', STOP_MS)
  }

  /** Stops the server, and asserts that it drained and exited with code 0 and without a panic. */
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

  /** Kills it at once, like a power cut. */
  kill() {
    if (this.isRunning) this.#child.kill('SIGKILL')
  }
}
