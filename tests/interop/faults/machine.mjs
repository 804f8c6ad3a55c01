// A machine of a server, to which faults happen: its processes are killed, stopped, upgraded, and started again on the same port.

import { setTimeout as pause } from 'node:timers/promises'

import { waitUntil } from '../lib/deadlines.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { children, isRunning } from '../soak/memory.mjs'

/** A machine with a supervisor, links and other machines that are away is back within this time. */
const BACK_MS = 60_000
/** A new program that has not appeared in this time has ended already. */
const AGAIN_MS = 2_000

/** Sends a signal to processes; one that has ended meanwhile gets none. */
export function signal(pids, name) {
  for (const pid of pids.filter(isRunning)) process.kill(pid, name)
}

export class Machine {
  #options
  /** Of its supervisor, or its only process; none before the first start. */
  #pid
  /** Every program that was started, for what it wrote. */
  #servers = []

  /** `options` are those of `startWatchfire`, with a port. */
  constructor(options) {
    this.#options = options
  }

  get port() {
    return this.#options.port
  }

  http(pathname) {
    return `http://127.0.0.1:${this.port}${pathname}`
  }

  get isRunning() {
    return isRunning(this.#pid)
  }

  /** The supervisor first: it must not replace a worker that is stopped or killed with it. */
  get #pids() {
    return this.#pid ? [this.#pid, ...children(this.#pid)] : []
  }

  /** The lines of its programs about panics. */
  get panics() {
    return this.#servers.flatMap(({ stderr }) => stderr.split('\n').filter((line) => line.includes('panicked')))
  }

  /** Starts it, again and again as a service manager does, until it is ready. */
  async start() {
    const end = performance.now() + BACK_MS
    for (;;) {
      try {
        const server = await startWatchfire(this.#options)
        this.#servers.push(server)
        this.#pid = server.pid
        return await this.untilReady()
      } catch (error) {
        if (performance.now() > end) throw error
        this.end()
        await pause(500)
      }
    }
  }

  untilReady() {
    const isReady = () =>
      fetch(this.http('/readyz'), { signal: AbortSignal.timeout(2_000) }).then(
        ({ ok }) => ok,
        () => false,
      )
    return waitUntil(isReady, `the machine at port ${this.port} is ready`, BACK_MS)
  }

  /** Kills one of its workers; `which` is a number from 0 to 1. */
  async killWorker(which) {
    const before = children(this.#pid)
    const worker = before[Math.floor(which * before.length)]
    signal([worker], 'SIGKILL')
    const isReplaced = () => !children(this.#pid).includes(worker) && children(this.#pid).length === before.length
    await waitUntil(isReplaced, 'the worker is replaced', BACK_MS)
    await this.untilReady()
  }

  /** Stops one of its workers. The supervisor kills and replaces one that is silent for too long. */
  async stopWorker(which, ms) {
    const workers = children(this.#pid)
    await this.#stop([workers[Math.floor(which * workers.length)]], ms)
  }

  async stop(ms) {
    await this.#stop(this.#pids, ms)
  }

  async #stop(pids, ms) {
    signal(pids, 'SIGSTOP')
    await pause(ms)
    signal(pids.toReversed(), 'SIGCONT')
    await this.untilReady()
  }

  /** Kills all its processes, like a power cut, and starts it again after this time. */
  async kill(ms) {
    const pids = this.end()
    await waitUntil(() => !pids.some(isRunning), 'the killed processes end')
    await pause(ms)
    await this.start()
  }

  /** Lets the program on disk take over. One that cannot start, because NATS is away, ends, and the old one goes on; then once more. */
  async upgrade() {
    const [old, before, end] = [this.#pid, children(this.#pid), performance.now() + BACK_MS]
    while (isRunning(old) && performance.now() < end) {
      signal([old], 'SIGUSR2')
      const successorOf = () => children(old).find((pid) => isRunning(pid) && !before.includes(pid))
      const successor = await waitUntil(successorOf, 'the new program starts', AGAIN_MS).catch(() => undefined)
      if (successor === undefined) continue
      await waitUntil(() => !isRunning(old) || !isRunning(successor), 'one of the two programs ends', BACK_MS)
      if (isRunning(successor)) this.#pid = successor
    }
    if (this.#pid === old) throw new Error('the machine was not upgraded')
    await this.untilReady()
  }

  /** Kills what still runs, and returns its processes. */
  end() {
    const pids = this.#pids
    signal(pids, 'SIGKILL')
    return pids
  }
}
