// Simulated peers in processes, each with some of them: tabs without a screen, on real sockets and real WebRTC.

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const HERD = fileURLToPath(new URL('herd.mjs', import.meta.url))
/** How often a process tells how its peers are. */
const TELL_MS = 250

/** A process of peers, as its parent sees it. */
class Herd {
  #child
  #calls = new Map()
  #lastCall = 0
  /** What it last told of its peers, by name. */
  tabs = new Map()
  residentMost = 0
  cpuSeconds = 0
  ready

  constructor(bundle, address) {
    this.#child = fork(HERD, [bundle, address, String(TELL_MS)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    this.ready = new Promise((resolve, reject) => {
      this.#child.on('message', (message) => {
        if (message.isReady) resolve()
        else this.#hear(message)
      })
      this.#child.on('exit', (code, signal) => {
        const over = new Error(`a process of peers ended with ${code ?? signal}`)
        reject(over)
        for (const call of this.#calls.values()) call.reject(over)
        this.#calls.clear()
      })
    })
  }

  get isRunning() {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  call(verb, ...args) {
    if (!this.isRunning) return Promise.reject(new Error('that process of peers has ended'))
    const call = ++this.#lastCall
    return new Promise((resolve, reject) => {
      this.#calls.set(call, { resolve, reject })
      this.#child.send({ call, verb, args })
    })
  }

  /** Ends it without a word to anybody, as a power cut would. */
  end() {
    if (!this.isRunning) return Promise.resolve()
    const over = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    return over
  }

  #hear({ call, told, error, state }) {
    if (state !== undefined) {
      this.tabs = new Map(state.tabs.map((tab) => [tab.id, tab]))
      this.residentMost = Math.max(this.residentMost, state.residentBytes)
      this.cpuSeconds = state.cpuSeconds
      return
    }
    const asked = this.#calls.get(call)
    this.#calls.delete(call)
    if (error === undefined) asked?.resolve(told)
    else asked?.reject(new Error(error))
  }
}

/** Peers of one page, spread over processes. */
export class Peers {
  #bundle
  #address
  #herds = []
  #all = []
  #homes = new Map()
  #root = null
  /** Visits that are over, as they ended. */
  past = []

  static async gather(bundle, address, herds) {
    const peers = new Peers(bundle, address)
    try {
      await Promise.all(Array.from({ length: herds }, (_, at) => peers.#start(at)))
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

  /** All who are here, as they last told. */
  get here() {
    return this.#herds.flatMap(({ tabs }) => [...tabs.values()])
  }

  get residentMost() {
    return this.#all.map(({ residentMost }) => residentMost)
  }

  get cpuSeconds() {
    return this.#all.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
  }

  tell(id) {
    return this.#homes.get(id)?.tabs.get(id) ?? null
  }

  async publish(id, herd, bytes) {
    this.#homes.set(id, this.#herds[herd])
    const { root, hash } = await this.#herds[herd].call('publish', id, bytes)
    this.#root = root
    return hash
  }

  async arrive(id, herd) {
    this.#homes.set(id, this.#herds[herd])
    await this.#herds[herd].call('arrive', id, this.#root)
  }

  /** A tab is closed. */
  async leave(id) {
    const home = this.#homes.get(id)
    const told = await home.call('leave', id)
    home.tabs.delete(id)
    this.past.push({ ...told, leftAt: Date.now() })
  }

  hash(id) {
    return this.#homes.get(id).call('hash', id)
  }

  /** A process ends in the middle of everything, all its peers with it; another takes its place. */
  async crash(at) {
    const herd = this.#herds[at]
    await herd.end()
    for (const tab of herd.tabs.values()) this.past.push({ ...tab, leftAt: Date.now() })
    herd.tabs = new Map()
    await this.#start(at)
  }

  async end() {
    await Promise.all(this.#all.map((herd) => herd.end()))
  }

  async #start(at) {
    const herd = new Herd(this.#bundle, this.#address)
    this.#all.push(herd)
    this.#herds[at] = herd
    await herd.ready
  }
}
