// Simulated peers in several processes: tabs without a screen, on real sockets and real WebRTC.

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const PEER_PROCESS = fileURLToPath(new URL('peer-process.mjs', import.meta.url))
/** Interval at which a process reports the state of its peers. */
const REPORT_MS = 250

/** A process of peers, as its parent sees it. */
class PeerProcess {
  #child
  #calls = new Map()
  #lastCall = 0
  /** The last report of each peer, by name. */
  tabs = new Map()
  residentMax = 0
  cpuSeconds = 0
  /** @type {Promise<void>} */
  ready

  constructor(bundle, address) {
    this.#child = fork(PEER_PROCESS, [bundle, address, String(REPORT_MS)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    this.ready = new Promise((resolve, reject) => {
      this.#child.on('message', (message) => {
        if (message.isReady) resolve()
        else this.#receive(message)
      })
      this.#child.on('exit', (code, signal) => {
        const ended = new Error(`a process of peers ended with ${code ?? signal}`)
        reject(ended)
        for (const call of this.#calls.values()) call.reject(ended)
        this.#calls.clear()
      })
    })
  }

  get isRunning() {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  call(command, ...args) {
    if (!this.isRunning) return Promise.reject(new Error('the process of peers has ended'))
    const call = ++this.#lastCall
    return new Promise((resolve, reject) => {
      this.#calls.set(call, { resolve, reject })
      this.#child.send({ call, command, args })
    })
  }

  /** Kills the process without notice, like a power cut. */
  end() {
    if (!this.isRunning) return Promise.resolve()
    const ended = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    return ended
  }

  #receive({ call, reply, error, state }) {
    if (state !== undefined) {
      this.tabs = new Map(state.tabs.map((tab) => [tab.id, tab]))
      this.residentMax = Math.max(this.residentMax, state.residentBytes)
      this.cpuSeconds = state.cpuSeconds
      return
    }
    const pending = this.#calls.get(call)
    this.#calls.delete(call)
    if (error === undefined) pending?.resolve(reply)
    else pending?.reject(new Error(error))
  }
}

/** The peers of one page, spread over processes. */
export class Peers {
  #bundle
  #address
  #processes = []
  #all = []
  #homes = new Map()
  #root = null
  /** Final reports of the visits that have ended. */
  past = []

  static async start(bundle, address, processCount) {
    const peers = new Peers(bundle, address)
    try {
      await Promise.all(Array.from({ length: processCount }, (_, at) => peers.#start(at)))
    } catch (error) {
      await peers.end()
      throw error
    }
    return peers
  }

  constructor(bundle, address) {
    this.#bundle = bundle
    this.#address = address
  }

  /** The last report of every peer that is present. */
  get here() {
    return this.#processes.flatMap(({ tabs }) => [...tabs.values()])
  }

  get residentMax() {
    return this.#all.map(({ residentMax }) => residentMax)
  }

  get cpuSeconds() {
    return this.#all.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
  }

  report(id) {
    return this.#homes.get(id)?.tabs.get(id) ?? null
  }

  async publish(id, processIndex, bytes) {
    this.#homes.set(id, this.#processes[processIndex])
    const { root, hash } = await this.#processes[processIndex].call('publish', id, bytes)
    this.#root = root
    return hash
  }

  async arrive(id, processIndex) {
    this.#homes.set(id, this.#processes[processIndex])
    await this.#processes[processIndex].call('arrive', id, this.#root)
  }

  /** Closes a peer's tab. */
  async leave(id) {
    const peerProcess = this.#homes.get(id)
    const reply = await peerProcess.call('leave', id)
    peerProcess.tabs.delete(id)
    this.past.push({ ...reply, leftAt: Date.now() })
  }

  hash(id) {
    return this.#homes.get(id).call('hash', id)
  }

  /** Kills a process with all its peers, and starts another in its place. */
  async crash(at) {
    const peerProcess = this.#processes[at]
    await peerProcess.end()
    for (const tab of peerProcess.tabs.values()) this.past.push({ ...tab, leftAt: Date.now() })
    peerProcess.tabs = new Map()
    await this.#start(at)
  }

  async end() {
    await Promise.all(this.#all.map((peerProcess) => peerProcess.end()))
  }

  async #start(at) {
    const peerProcess = new PeerProcess(this.#bundle, this.#address)
    this.#all.push(peerProcess)
    this.#processes[at] = peerProcess
    await peerProcess.ready
  }
}
