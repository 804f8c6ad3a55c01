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
  #sockets = new Set()
  #listener = net.createServer((client) => this.#connect(client))

  constructor(server) {
    this.server = server
  }

  listen() {
    return listen(this.#listener)
  }

  get endpoint() {
    return `ws://127.0.0.1:${portOf(this.#listener)}/socket`
  }

  /** Breaks all connections, and refuses new ones. */
  cut() {
    this.#isCut = true
    for (const socket of this.#sockets) socket.destroy()
  }

  restore() {
    this.#isCut = false
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
      this.#sockets.add(socket)
      socket.pipe(other)
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#sockets.delete(socket)
        other.destroy()
      })
    }
  }
}
