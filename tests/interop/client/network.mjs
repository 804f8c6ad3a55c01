// The network between clients and a server, which a test cuts and restores.

import net from 'node:net'

import { listen, portOf } from '../lib/listen.mjs'

/** Starts a network, until the test ends. Its `endpoint` leads to `server`, which the test may replace. */
export async function startNetwork(t, server) {
  const network = new Network(server)
  await network.listen()
  t.after(() => network.close())
  return network
}

class Network {
  server
  #isCut = false
  #isHeld = false
  /** The two ends of each connection. */
  #sockets = new Map()
  #listener = net.createServer((client) => this.#connect(client))

  constructor(server) {
    this.server = server
  }

  listen() {
    return listen(this.#listener)
  }

  get port() {
    return portOf(this.#listener)
  }

  get endpoint() {
    return `ws://127.0.0.1:${this.port}/socket`
  }

  /** Breaks all connections, and refuses new ones. */
  cut() {
    this.#isCut = true
    for (const socket of this.#sockets.keys()) socket.destroy()
  }

  restore() {
    this.#isCut = false
  }

  /** Carries nothing more, and tells nobody. */
  hold() {
    this.#isHeld = true
    for (const socket of this.#sockets.keys()) socket.unpipe()
  }

  /** Carries everything again, also what was sent meanwhile. */
  release() {
    this.#isHeld = false
    for (const [socket, other] of this.#sockets) socket.pipe(other)
  }

  close() {
    this.cut()
    this.#listener.close()
  }

  #connect(client) {
    if (this.#isCut) return client.destroy()
    const upstream = net.connect(this.server.port, '127.0.0.1')
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ]) {
      this.#sockets.set(socket, other)
      if (!this.#isHeld) socket.pipe(other)
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#sockets.delete(socket)
        other.destroy()
      })
    }
  }
}
