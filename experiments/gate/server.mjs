// Counts what a server takes: memory of a joined socket and of a parked poll, and system calls of a delivery.
//
// Memory is the difference between a server with many clients and one with few, so that neither the program nor the first
// buffers count. It is what the process has, without the kernel's buffers. System calls are counted by strace while one message after the
// other goes to every client of a room.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { round } from './counts.mjs'

const FEW = 1000
const MANY = 9000
const LISTENERS = 200
const MESSAGES = 50
/** Connections that are being opened at a time. */
const OPENING = 50
const SYSCALLS = 'system calls'
const DEADLINE_MS = 30_000
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

/** @returns {Promise<import('./compare.mjs').Figure[]>} */
export async function countServer() {
  const figure = (what, unit, value, band) => ({ figure: `server: ${what}`, unit, value, band, compiled: false })
  return [
    figure('resident bytes', 'a joined socket', await memoryOf(joinRoom), MEMORY_BAND),
    figure('resident bytes, polls', 'a parked poll', await memoryOf(parkPoll), POLL_MEMORY_BAND),
    figure(SYSCALLS, 'a delivery', await syscalls(), SYSCALL_BAND),
  ].filter(({ value }) => value !== undefined)
}

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

/** The system calls of a server for each delivery of a broadcast; `undefined` where no process may be traced, outside CI. */
function syscalls() {
  return withServer(async (server) => {
    const clients = []
    const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-gate-'))
    try {
      await openMany(clients, LISTENERS, () => joinRoom(server.port))
      const report = path.join(folder, 'syscalls')
      const strace = spawn('strace', ['-f', '-c', '-o', report, '-p', `${server.pid}`], { stdio: ['ignore', 'ignore', 'pipe'] })
      if (!(await isAttached(strace))) return undefined
      for (let message = 0; message < MESSAGES; message++) {
        const text = `message-${message};`
        clients[0].socket.write(textFrame(`["1","${message + 2}","rooms:lobby","new_msg",{"body":"${text}"}]`))
        await Promise.all(clients.map((client) => client.waitFor(text)))
      }
      if (strace.exitCode !== null) throw new Error('strace ended before the server')
      strace.kill('SIGINT')
      await once(strace, 'exit')
      const total = (await readFile(report, 'utf8')).match(/^100\.00 +[\d.]+ +(?:\d+ +)?(\d+) .*total$/m)
      if (!total) throw new Error('strace printed no total')
      return round(Number(total[1]) / (MESSAGES * LISTENERS))
    } finally {
      for (const client of clients) client.socket.destroy()
      await rm(folder, { recursive: true, force: true })
    }
  })
}

/** Whether strace follows the process, after its first line. Its errors are read on, or it would end at its next line. */
async function isAttached(strace) {
  const text = await new Promise((resolve) => {
    strace.stderr.on('data', (part) => resolve(`${part}`))
    strace.once('error', (error) => resolve(error.message))
    strace.once('exit', () => resolve('strace ended'))
  })
  if (text.includes('attached')) return true
  if (process.env.CI) throw new Error(`cannot count system calls: ${text}`)
  console.warn(`cannot count system calls here: ${text}`)
  return false
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

/** A connection, and what arrived on it since the last `waitFor`. */
class Client {
  constructor(socket) {
    this.socket = socket
    this.text = ''
    this.arrived = () => {}
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      this.text += bytes.toString('latin1')
      this.arrived()
    })
  }

  /** Waits for `text`, and returns everything that arrived up to its end. */
  waitFor(text) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`no ${text} within ${DEADLINE_MS} ms, but ${JSON.stringify(this.text)}`)),
        DEADLINE_MS,
      )
      this.arrived = () => {
        const at = this.text.indexOf(text)
        if (at < 0) return
        clearTimeout(timer)
        this.arrived = () => {}
        const before = this.text.slice(0, at + text.length)
        this.text = this.text.slice(at + text.length)
        resolve(before)
      }
      this.arrived()
    })
  }
}

async function open(port) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  return new Client(socket)
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

function request(port, target, headers = []) {
  return [`GET ${target} HTTP/1.1`, `Host: 127.0.0.1:${port}`, ...headers, '', ''].join('\r\n')
}

/** A client's frame. Its mask is zero, which leaves the text as it is. */
function textFrame(text) {
  return Buffer.concat([Buffer.from([0x81, 0x80 | Buffer.byteLength(text), 0, 0, 0, 0]), Buffer.from(text)])
}
