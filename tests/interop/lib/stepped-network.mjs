// A network between browsers and a server on this machine that counts delays instead of waiting for them.

import net from 'node:net'

import { listen } from './listen.mjs'

/** When nobody has sent anything for this long, the programs have handled all that arrived. */
const QUIET_MS = 750

/**
 * Listens in front of a server. All bytes wait until everyone is quiet; then all arrive together, and one step is over: the time of one way
 * through the network. So the number of steps is what a network with a delay would take, however busy this machine is.
 */
export async function startSteppedNetwork(t, server) {
  const network = new SteppedNetwork(server.port)
  t.after(() => network.close())
  await network.listen()
  return network
}

class SteppedNetwork {
  /** Ways through the network so far, one after the other. */
  steps = 0
  address = ''
  #listener
  #sockets = new Set()
  /** The bytes that wait, and after which step they arrive. */
  #waiting = []
  #quiet

  constructor(port) {
    this.#listener = net.createServer({ noDelay: true }, (near) => this.#connect(near, port))
  }

  async listen() {
    this.address = `http://localhost:${await listen(this.#listener)}`
  }

  close() {
    clearTimeout(this.#quiet)
    this.#listener.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #connect(near, port) {
    const far = net.connect({ port, host: '127.0.0.1', noDelay: true })
    // TCP's handshake takes two ways before the first bytes leave.
    this.#pass(near, far, this.steps + 2)
    this.#pass(far, near, 0)
  }

  #pass(from, to, openAfter) {
    this.#sockets.add(from)
    const later = (happen) => {
      this.#waiting.push({ after: Math.max(this.steps, openAfter) + 1, happen: () => !to.destroyed && happen() })
      this.#expectQuiet()
    }
    from.on('data', (bytes) => later(() => to.write(bytes)))
    from.on('end', () => later(() => to.end()))
    from.on('error', () => later(() => to.destroy()))
    from.on('close', () => {
      this.#sockets.delete(from)
      later(() => to.destroy())
    })
  }

  #expectQuiet() {
    clearTimeout(this.#quiet)
    this.#quiet = setTimeout(() => this.#step(), QUIET_MS)
  }

  #step() {
    this.steps += 1
    const due = this.#waiting.filter(({ after }) => after <= this.steps)
    this.#waiting = this.#waiting.filter(({ after }) => after > this.steps)
    for (const { happen } of due) happen()
    if (this.#waiting.length > 0) this.#expectQuiet()
  }
}
