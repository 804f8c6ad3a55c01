// Measures what a throw of a sprite costs a server of several processes.
//
// Windows join a grid over plain HTTP, and each keeps a poll waiting. One throw follows the other, each on a new connection, as from a
// client that polls at the same time. A throw is over when its thrower has the answer and a poll has the sprite. So no two throws share a
// message or a system call, and only the choice of the processes is left to chance.

import { EventEmitter, once } from 'node:events'
import { setTimeout } from 'node:timers/promises'

import { waitUntil } from '../../tests/interop/lib/deadlines.mjs'
import { connectionsOf } from '../../tests/interop/lib/process-sockets.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { open, request } from './connections.mjs'
import { round } from './counts.mjs'
import { countSyscalls } from './strace.mjs'

const PROCESSES = 4
const WINDOWS = 128
/** Rounds in which connections are opened, until each process has its share. */
const ROUNDS_MAX = 20
const THROWS = 1000
const EDGES = ['left', 'right', 'up', 'down']
const SETTINGS = { 'server.drain_period': '0s', 'server.shards': 1 }
const BAND = 0.1

/** @type {import('./measured.mjs').Meter[]} */
export const THROW_METERS = [
  { figure: `server: messages between ${PROCESSES} processes`, unit: 'a throw', band: BAND, measure: () => aThrow(countMessages) },
  {
    figure: `server: system calls of ${PROCESSES} processes`,
    unit: 'a throw',
    band: BAND,
    measure: () => aThrow((server, work) => countSyscalls(server.workers(), work)),
  },
]

/** The counts for each throw, less those of the server in the same time without throws. */
function aThrow(count) {
  return withGrid(async (server, grid) => {
    const began = performance.now()
    const thrown = await count(server, () => grid.throwAll())
    if (thrown === undefined) return undefined
    const took = performance.now() - began
    return round((thrown - (await count(server, () => setTimeout(took)))) / THROWS)
  })
}

/** Calls `work` with a new server and a grid of windows. */
async function withGrid(work) {
  const server = await startWatchfire({ settings: SETTINGS, processes: PROCESSES })
  const grid = new Grid(server.port)
  try {
    await openWindows(server, grid)
    return await work(server, grid)
  } finally {
    grid.close()
    await server.stop()
  }
}

/**
 * Opens the windows. Each process has as many of them: one without windows sends each throw to another process, which costs three times
 * the messages. The kernel chooses the process of a connection, so those beyond the share of a process are closed.
 */
async function openWindows(server, grid) {
  const counts = new Map(server.workers().map((pid) => [pid, 0]))
  const hasShare = (pid) => counts.get(pid) === WINDOWS / PROCESSES
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const opened = await Promise.all(Array.from({ length: WINDOWS }, () => open(server.port)))
    const processes = await waitUntil(() => processesOf(server, opened), 'the processes have accepted the connections')
    const kept = opened.filter((client, index) => {
      const pid = processes[index]
      if (hasShare(pid)) client.socket.destroy()
      else counts.set(pid, counts.get(pid) + 1)
      return !client.socket.destroyed
    })
    await Promise.all(kept.map((client) => grid.openWindow(client)))
    if ([...counts.keys()].every(hasShare)) return
  }
  throw new Error(`cannot open windows at each of ${PROCESSES} processes: they have ${[...counts.values()].join(', ')}`)
}

/** The process of each connection, or `null` before all are accepted. */
function processesOf(server, clients) {
  const accepted = server.workers().flatMap((pid) => connectionsOf(pid).map(({ remotePort }) => [remotePort, pid]))
  const byPort = new Map(accepted)
  return clients.every(({ socket }) => byPort.has(socket.localPort)) ? clients.map(({ socket }) => byPort.get(socket.localPort)) : null
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

  async openWindow(client) {
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
