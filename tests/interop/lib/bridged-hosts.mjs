// Network namespaces with an address each, connected by a bridge, like hosts on one network.

import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'

const ip = (...args) => execFileSync('ip', args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })

/** Hosts on a network of their own. This machine has an address on it too. */
export class BridgedHosts {
  /** The hosts; each has its address, and the command that runs a program there. */
  hosts = []
  #id
  #network

  /** Makes so many hosts. Fails if this process may not make network namespaces. */
  static create(count) {
    const bridged = new BridgedHosts()
    try {
      bridged.#make(count)
    } catch (error) {
      bridged.remove()
      throw new Error(`cannot make network namespaces: ${error.message}; run the test as root`)
    }
    return bridged
  }

  constructor() {
    this.#id = `wf${process.pid}`
    const used = ip('-o', 'addr')
    do this.#network = `10.${randomInt(64, 255)}.${randomInt(256)}`
    while (used.includes(` ${this.#network}.`))
  }

  /** The address of this machine on the network. */
  get address() {
    return `${this.#network}.1`
  }

  get #bridge() {
    return `${this.#id}b`
  }

  #make(count) {
    ip('link', 'add', this.#bridge, 'type', 'bridge')
    ip('addr', 'add', `${this.address}/24`, 'dev', this.#bridge)
    ip('link', 'set', this.#bridge, 'up')
    for (let index = 0; index < count; index++) {
      const [name, outside] = [`${this.#id}n${index}`, `${this.#id}v${index}`]
      const address = `${this.#network}.${index + 2}`
      const within = ['ip', 'netns', 'exec', name]
      ip('netns', 'add', name)
      this.hosts.push({ name, address, within })
      ip('link', 'add', outside, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
      ip('link', 'set', outside, 'master', this.#bridge, 'up')
      ip('-n', name, 'link', 'set', 'lo', 'up')
      ip('-n', name, 'addr', 'add', `${address}/24`, 'dev', 'eth0')
      ip('-n', name, 'link', 'set', 'eth0', 'up')
    }
  }

  /** Removes the namespaces, with their links, and the bridge. */
  remove() {
    for (const { name } of this.hosts) ip('netns', 'del', name)
    try {
      ip('link', 'del', this.#bridge)
    } catch {
      // It was not made.
    }
  }
}
