// Sockets that send exactly the bytes that a test chooses, without a client library.

import { createHash, randomBytes } from 'node:crypto'
import net from 'node:net'

import { Receiver } from 'ws'

import { Inbox, SOON_MS } from './deadlines.mjs'

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

export const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 }

/** A WebSocket without a library above it. */
export class RawWebSocket {
  /** Text messages as strings, binary ones as buffers. */
  messages = new Inbox()
  #socket
  #receiver = new Receiver({ isServer: false, maxPayload: 64 * 2 ** 20 })
  #ended = new Inbox()
  #close = { code: 1006, reason: '' }

  /** Upgrades; rejects when the upgrade is refused. */
  static async open(t, server, { query = 'vsn=2.0.0', headers = {} } = {}) {
    const { socket, status, rest, ...response } = await request(t, server, {
      path: `/socket/websocket?${query}`,
      headers: { ...upgradeHeaders(), ...headers },
    })
    if (status !== 101) throw new Error(`no websocket: ${status} ${response.body}`)
    return new RawWebSocket(socket, rest)
  }

  constructor(socket, rest) {
    this.#socket = socket
    this.#receiver.on('message', (data, isBinary) => this.messages.put(isBinary ? data : data.toString()))
    this.#receiver.on('conclude', (code, reason) => {
      this.#close = { code, reason: reason.toString() }
      this.#socket.write(frame(opcode.close, code === 1005 ? '' : u16(code)))
    })
    this.#receiver.on('error', (error) => (this.#close = { code: 1006, reason: error.message }))
    socket.on('close', () => this.#ended.put(this.#close))
    socket.on('error', () => {})
    socket.on('data', (chunk) => this.#receiver.write(chunk))
    if (rest.length > 0) this.#receiver.write(rest)
  }

  /** Sends a Phoenix message. */
  send(message) {
    this.write(frame(opcode.text, JSON.stringify(message)))
  }

  /** Sends any text. */
  text(text) {
    this.write(frame(opcode.text, text))
  }

  binary(bytes) {
    this.write(frame(opcode.binary, bytes))
  }

  /** Sends any bytes, whether they form a frame or not. */
  write(bytes) {
    this.#socket.write(bytes)
  }

  /**
   * The next message, parsed.
   * @param {(message: any) => unknown} [wanted]
   * @param {string} [what]
   */
  async receive(wanted = () => true, what, ms = SOON_MS) {
    const text = await this.messages.next((message) => wanted(JSON.parse(message)), what, ms)
    return JSON.parse(text)
  }

  /** Sends a message and returns the reply to its ref. */
  request(message) {
    this.send(message)
    return this.receive(([, ref]) => ref === message[1], `a reply to ${JSON.stringify(message).slice(0, 200)}`)
  }

  /**
   * Joins a topic, or rejects.
   * @param {unknown} [ref]
   */
  async join(topic, params = {}, ref = 'join') {
    const [, , , , payload] = await this.request([ref, ref, topic, 'phx_join', params])
    if (payload.status !== 'ok') throw new Error(`join of ${topic}: ${JSON.stringify(payload)}`)
  }

  /** The code and reason of the close; 1006 without a close frame. */
  closed(ms = SOON_MS) {
    return this.#ended.next(() => true, 'the server closes the socket', ms)
  }

  get isOpen() {
    return this.#ended.all.length === 0
  }

  /** Stops reading, like a phone without a signal. */
  pause() {
    this.#socket.pause()
  }

  resume() {
    this.#socket.resume()
  }

  destroy() {
    this.#socket.destroy()
  }
}

export function upgradeHeaders() {
  return {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': randomBytes(16).toString('base64'),
  }
}

/** The required `Sec-WebSocket-Accept` for a key. */
export function acceptFor(key) {
  return createHash('sha1')
    .update(key + GUID)
    .digest('base64')
}

/** One client frame, masked by default. */
export function frame(opcode, payload, { isFinal = true, isMasked = true } = {}) {
  const bytes = Buffer.from(payload)
  const head = frameHead(opcode, bytes.length, { isFinal, isMasked })
  if (!isMasked) return Buffer.concat([head, bytes])
  const key = randomBytes(4)
  return Buffer.concat([head, key, bytes.map((byte, index) => byte ^ key[index % 4])])
}

/** The start of a frame, up to its length, which may be wrong. */
export function frameHead(opcode, length, { isFinal = true, isMasked = true } = {}) {
  const first = (isFinal ? 0x80 : 0) | opcode
  const mask = isMasked ? 0x80 : 0
  if (length < 126) return Buffer.from([first, mask | length])
  if (length < 65_536) return Buffer.concat([Buffer.from([first, mask | 126]), u16(length)])
  const long = Buffer.alloc(8)
  long.writeBigUInt64BE(BigInt(length))
  return Buffer.concat([Buffer.from([first, mask | 127]), long])
}

function u16(number) {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(number)
  return bytes
}

/** A binary push of the V2 serializer. */
export function binaryPush({ kind = 0, joinRef, ref, topic, event, data }) {
  const fields = [joinRef, ref, topic, event].map((field) => Buffer.from(field))
  return Buffer.concat([Buffer.from([kind, ...fields.map((field) => field.length)]), ...fields, Buffer.from(data)])
}

/** Connects without sending anything. A server behind a proxy has a `dial` and a `host` of its own. */
export async function openTcp(t, server) {
  const socket = server.dial?.() ?? net.connect({ port: server.port, host: '127.0.0.1' })
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  const connected = new Inbox()
  socket.once('connect', connected.put)
  await connected.next(() => true, 'a connection')
  return socket
}

/** Sends one request on a connection of its own; a response without a length ends with the connection. */
export async function request(t, server, { method = 'GET', path, headers = {}, body = '' }) {
  const socket = await openTcp(t, server)
  const lines = Object.entries({ Host: server.host ?? `127.0.0.1:${server.port}`, ...headers }).flatMap(([name, values]) =>
    [values].flat().map((value) => `${name}: ${value}\r\n`),
  )
  socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
  return { socket, ...(await readResponse(socket)) }
}

/** Reads one response. `rest` is the bytes after it. */
export async function readResponse(socket, ms = SOON_MS) {
  const chunks = new Inbox()
  const end = Symbol('the end')
  const put = (chunk) => chunks.put(chunk)
  const finish = () => chunks.put(end)
  socket.on('data', put).on('close', finish)
  let bytes = Buffer.alloc(0)
  const more = async (what) => {
    const chunk = await chunks.next(() => true, what, ms)
    if (chunk === end) return false
    bytes = Buffer.concat([bytes, chunk])
    return true
  }
  while (bytes.indexOf('\r\n\r\n') < 0 && (await more('a response’s head')));
  const at = bytes.indexOf('\r\n\r\n')
  if (at < 0) throw new Error(`the connection ended before a response: ${JSON.stringify(bytes.toString())}`)
  const [statusLine, ...fields] = bytes.subarray(0, at).toString('latin1').split('\r\n')
  const headers = Object.fromEntries(
    fields.map((field) => [field.slice(0, field.indexOf(':')).toLowerCase(), field.slice(field.indexOf(':') + 1).trim()]),
  )
  const status = Number(statusLine.split(' ')[1])
  const length = status === 101 ? 0 : Number(headers['content-length'] ?? Infinity)
  bytes = bytes.subarray(at + 4)
  while (bytes.length < length && (await more('a response’s body')));
  socket.off('data', put).off('close', finish)
  const body = status === 101 ? '' : bytes.subarray(0, length).toString()
  return { status, headers, body, rest: status === 101 ? bytes : bytes.subarray(body.length) }
}
