// Measures what a server takes: memory of a joined socket and of a parked poll, and system calls of a delivery.
//
// Memory is the difference between a server with many clients and one with few, so that neither the program nor the first
// buffers count. It is what the process has, without the kernel's buffers. System calls are counted by strace while one message after the
// other goes to every client of a room.

import { readFile } from 'node:fs/promises'

import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { open, request } from './connections.mjs'
import { round } from './counts.mjs'
import { countSyscalls } from './strace.mjs'

const FEW = 1000
const MANY = 9000
const LISTENERS = 200
const MESSAGES = 50
/** Connections that are being opened at a time. */
const OPENING = 50
const SETTINGS = {
  'channels.open_rooms': true,
  'limits.sockets_per_address_max': 100_000,
  'server.drain_period': '0s',
  'server.shards': 1,
  'socket.longpoll_window': '5m',
  'socket.idle_timeout': '5m',
}
/** The allocator asks for memory in large pieces. A session of a poll also has requests, whose buffers come and go. */
const MEMORY_BAND = 0.1
const POLL_MEMORY_BAND = 0.15
const SYSCALL_BAND = 0.05

/** @type {import('./measured.mjs').Meter[]} */
export const SERVER_METERS = [
  { figure: 'server: resident bytes', unit: 'a joined socket', band: MEMORY_BAND, measure: () => memoryOf(joinRoom) },
  { figure: 'server: resident bytes, polls', unit: 'a parked poll', band: POLL_MEMORY_BAND, measure: () => memoryOf(parkPoll) },
  { figure: 'server: system calls', unit: 'a delivery', band: SYSCALL_BAND, measure: syscalls },
]

async function withServer(work) {
  const server = await startWatchfire({ settings: SETTINGS, processes: 1 })
  try {
    return await work(server)
  } finally {
    await server.stop()
  }
}

/** The bytes of anonymous memory that each further client adds. */
function memoryOf(open) {
  return withServer(async (server) => {
    const clients = []
    try {
      await openMany(clients, FEW, () => open(server.port))
      const few = await anonymousBytes(server.pid)
      await openMany(clients, MANY, () => open(server.port))
      return round(((await anonymousBytes(server.pid)) - few) / (MANY - FEW))
    } finally {
      for (const client of clients) client.socket.destroy()
    }
  })
}

/** The system calls of a server for each delivery of a broadcast. */
function syscalls() {
  return withServer(async (server) => {
    const clients = []
    try {
      await openMany(clients, LISTENERS, () => joinRoom(server.port))
      const calls = await countSyscalls([server.pid], async () => {
        for (let message = 0; message < MESSAGES; message++) {
          const text = `message-${message};`
          clients[0].socket.write(textFrame(`["1","${message + 2}","rooms:lobby","new_msg",{"body":"${text}"}]`))
          await Promise.all(clients.map((client) => client.waitFor(text)))
        }
      })
      return calls === undefined ? undefined : round(calls / (MESSAGES * LISTENERS))
    } finally {
      for (const client of clients) client.socket.destroy()
    }
  })
}

async function anonymousBytes(pid) {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8')
  return Number(rollup.match(/^Anonymous: +(\d+) kB$/m)[1]) * 1024
}

/** Opens clients until there are `count`, a few at a time. */
async function openMany(clients, count, open) {
  while (clients.length < count) {
    const opening = Array.from({ length: Math.min(OPENING, count - clients.length) }, open)
    clients.push(...(await Promise.all(opening)))
  }
}

async function joinRoom(port) {
  const client = await open(port)
  const headers = ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==']
  client.socket.write(request(port, '/socket/websocket?vsn=2.0.0', headers))
  await client.waitFor('\r\n\r\n')
  client.socket.write(textFrame('["1","1","rooms:lobby","phx_join",{}]'))
  await client.waitFor('"status":"ok"')
  return client
}

/** The first request brings a token, the second one with it is parked. */
async function parkPoll(port) {
  const client = await open(port)
  client.socket.write(request(port, '/socket/longpoll?vsn=2.0.0'))
  const answer = await client.waitFor('"messages":[]}')
  const token = encodeURIComponent(answer.match(/"token":"([^"]+)"/)[1])
  client.socket.write(request(port, `/socket/longpoll?vsn=2.0.0&token=${token}`))
  return client
}

/** A client's frame. Its mask is zero, which leaves the text as it is. */
function textFrame(text) {
  return Buffer.concat([Buffer.from([0x81, 0x80 | Buffer.byteLength(text), 0, 0, 0, 0]), Buffer.from(text)])
}
