// Counts what a throw of a sprite costs a server of several processes.
//
// Windows join a grid over plain HTTP, and each keeps a poll waiting. One throw follows the other, each on a new connection, as from a
// client that polls at the same time. A throw is over when its thrower has the answer and a poll has the sprite. So no two throws share a
// message or a system call, and only the choice of the processes is left to chance.

import { EventEmitter, once } from 'node:events'
import { setTimeout } from 'node:timers/promises'

import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { open, request } from './connections.mjs'
import { round } from './counts.mjs'
import { countSyscalls } from './strace.mjs'

const PROCESSES = 4
const WINDOWS = 128
const THROWS = 1000
const EDGES = ['left', 'right', 'up', 'down']
const SETTINGS = { 'server.drain_period': '0s', 'server.shards': 1 }
const BAND = 0.1

/** @returns {Promise<import('./compare.mjs').Figure[]>} */
export async function countThrows() {
  const server = await startWatchfire({ settings: SETTINGS, processes: PROCESSES })
  const grid = new Grid(server.port)
  try {
    // All at once, before the processes know of each other's connections: then each of them gets some.
    await Promise.all(Array.from({ length: WINDOWS }, () => grid.openWindow()))
    const messages = await aThrow(grid, (work) => countMessages(server, work))
    const calls = await aThrow(grid, (work) => countSyscalls(server.workers(), work))
    const figure = (what, value) => ({ figure: `server: ${what}`, unit: 'a throw', value, band: BAND, compiled: false, measured: true })
    return [figure(`messages between ${PROCESSES} processes`, messages), figure(`system calls of ${PROCESSES} processes`, calls)].filter(
      ({ value }) => value !== undefined,
    )
  } finally {
    grid.close()
    await server.stop()
  }
}

/** The counts for each throw, less those of the server in the same time without throws. */
async function aThrow(grid, count) {
  const began = performance.now()
  const thrown = await count(() => grid.throwAll())
  if (thrown === undefined) return undefined
  const took = performance.now() - began
  return round((thrown - (await count(() => setTimeout(took)))) / THROWS)
}

async function countMessages(server, work) {
  const messages = () => server.metric('watchfire_bus_messages_total')
  const before = await messages()
  await work()
  return (await messages()) - before
}

class Grid {
  constructor(port) {
    this.port = port
    this.windows = []
    /** Emits the name of each sprite that a poll has. */
    this.arrivals = new EventEmitter()
  }

  async openWindow() {
    const client = await open(this.port)
    client.socket.write(request(this.port, '/sprites/meadow/join', [], ''))
    await client.waitFor('"token":"')
    const token = (await client.waitFor('"')).slice(0, -1)
    await client.waitFor('}')
    this.windows.push({ client, token })
    this.poll(client, token)
  }

  /** Polls until the connection is closed. A poll also ends when the neighbours change; all four are there. */
  async poll(client, token) {
    while (!client.socket.destroyed) {
      client.socket.write(request(this.port, `/sprites/meadow/poll?token=${token}`))
      const answer = await client.waitFor('"}}').catch(() => '')
      for (const [, sprite] of answer.matchAll(/"sprite":"([^"]+)"/g)) this.arrivals.emit(sprite)
    }
  }

  async throwAll() {
    for (let number = 0; number < THROWS; number++) {
      const { token } = this.windows[number % WINDOWS]
      const edge = EDGES[Math.floor(number / WINDOWS) % EDGES.length]
      const sprite = `kite ${number}`
      const arrived = once(this.arrivals, sprite)
      const client = await open(this.port)
      const body = JSON.stringify({ token, sprite, edge, at: 0.5, velocity: { x: 600, y: -40 } })
      client.socket.write(request(this.port, '/sprites/meadow/throw', ['Connection: close'], body))
      await client.waitFor('\r\n\r\n{}')
      client.socket.destroy()
      await arrived
    }
  }

  close() {
    for (const { client } of this.windows) client.socket.destroy()
  }
}
