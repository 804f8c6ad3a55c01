import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { connect, reconnectDelay, type Connection, type Topic } from '@watchfire/client/connection'
import { earlySocket } from '../../app/src/app/early-socket.ts'

type Frame = [joinRef: string | null, ref: string, topic: string, event: string, payload: unknown]

/** The part of a Phoenix server that tests use: it replies to joins, echoes pushes, and runs commands of the test. */
class Server {
  readonly #listener = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  readonly sockets = new Set<WebSocket>()
  readonly joins: unknown[] = []
  readonly binaries: Buffer[] = []
  refusal: unknown = null
  /** Whether the server has stopped answering, as behind a connection that no longer exists. */
  isSilent = false
  joinRef = ''

  constructor() {
    this.#listener.on('connection', (socket) => {
      this.sockets.add(socket)
      socket.on('close', () => this.sockets.delete(socket))
      socket.on('message', (data: Buffer, isBinary) => (isBinary ? this.#binary(socket, data) : this.#text(socket, `${data}`)))
    })
  }

  listening(): Promise<void> {
    return new Promise((resolve) => this.#listener.once('listening', () => resolve()))
  }

  get endPoint(): string {
    return `ws://127.0.0.1:${(this.#listener.address() as AddressInfo).port}/socket`
  }

  #text(socket: WebSocket, text: string): void {
    if (this.isSilent) return
    const [joinRef, ref, topic, event, payload] = JSON.parse(text) as Frame
    const reply = (status: string, response: unknown) =>
      socket.send(JSON.stringify([joinRef, ref, topic, 'phx_reply', { status, response }]))
    if (event === 'phx_join') {
      this.joins.push(payload)
      this.joinRef = joinRef ?? ''
      if (this.refusal === null) reply('ok', { welcome: this.joins.length })
      else reply('error', this.refusal)
    } else if (event === 'refuse') reply('error', { reason: 'no' })
    else if (event !== 'ignore') reply('ok', payload)
  }

  #binary(socket: WebSocket, data: Buffer): void {
    this.binaries.push(data)
    const [, joinRefLength = 0, refLength = 0, topicLength = 0] = data
    const at = 5 + joinRefLength
    const ref = data.subarray(at, at + refLength).toString()
    const topic = data.subarray(at + refLength, at + refLength + topicLength).toString()
    socket.send(JSON.stringify([this.joinRef, ref, topic, 'phx_reply', { status: 'ok', response: {} }]))
  }

  broadcast(event: string, payload: unknown): void {
    for (const socket of this.sockets) socket.send(JSON.stringify([this.joinRef, null, 'page:x', event, payload]))
  }

  sayBytes(event: string, ...bytes: number[]): void {
    const texts = [this.joinRef, 'page:x', event].map((text) => Buffer.from(text))
    const frame = Buffer.concat([Buffer.of(0, ...texts.map(({ length }) => length)), ...texts, Buffer.from(bytes)])
    for (const socket of this.sockets) socket.send(frame)
  }

  breakAll(): void {
    for (const socket of this.sockets) socket.terminate()
  }

  close(): Promise<void> {
    this.breakAll()
    return new Promise((resolve) => this.#listener.close(() => resolve()))
  }
}

/**
 * How long the tests wait for an answer that never comes. An answer that does come may be this late, since the clock goes on while other
 * programs keep the machine busy.
 */
const UNANSWERED_MS = 1_000

let server: Server
let connection: Connection
let happened: string[]
let wake: (() => void) | null
beforeEach(async () => {
  server = new Server()
  await server.listening()
  connection = connect(server.endPoint, { transport: WebSocket, random: () => 0, timeout: 2 * UNANSWERED_MS })
  happened = []
  wake = null
})
afterEach(async () => {
  connection.close()
  await server.close()
})

function note(what: string): void {
  happened.push(what)
  wake?.()
}

/** Waits until `count` events have happened. */
async function events(count: number): Promise<string[]> {
  while (happened.length < count) await new Promise<void>((resolve) => (wake = resolve))
  return happened
}

function join(): Topic {
  let joins = 0
  return connection.join('page:x', ['news', 'relay'], {
    params: () => ({ attempt: ++joins }),
    joined: (response) => note(`joined ${JSON.stringify(response)}`),
    refused: (response) => note(`refused ${JSON.stringify(response)}`),
    lost: () => note('lost'),
    message: (event, payload) =>
      note(`${event} ${payload instanceof ArrayBuffer ? [...new Uint8Array(payload)] : JSON.stringify(payload)}`),
  })
}

describe('a socket that opens before the connection is made', () => {
  const address = () => `${server.endPoint}/websocket?vsn=2.0.0`
  /** Begins a socket, and keeps it beside what stands for the class. */
  const begin = (at: string) => {
    const made: WebSocket[] = []
    const Kept = class extends WebSocket {
      constructor(url: string) {
        super(url)
        made.push(this)
      }
    }
    const transport = earlySocket(at, Kept as unknown as typeof globalThis.WebSocket)
    return { transport, made }
  }
  const joinWith = async (transport: unknown) => {
    connection.close()
    connection = connect(server.endPoint, { transport, random: () => 0 })
    join()
    await events(1)
    return connection.state
  }
  const settled = (socket: WebSocket) =>
    new Promise((resolve) => socket.once('open', resolve).once('close', resolve).once('error', resolve))

  it('is used while it opens, and when it is open', async () => {
    const opening = begin(address())
    expect([await joinWith(opening.transport), opening.made.length]).toEqual(['open', 1])
    happened = []
    const open = begin(address())
    await settled(open.made[0]!)
    expect([await joinWith(open.transport), open.made.length]).toEqual(['open', 1])
  })

  it('is replaced when it has failed', async () => {
    const failed = begin('ws://127.0.0.1:1/socket/websocket')
    await settled(failed.made[0]!)
    expect([await joinWith(failed.transport), failed.made.length]).toEqual(['open', 2])
  })
})

describe('a topic', () => {
  it('is joined, receives events, and gets replies to pushes', async () => {
    const topic = join()
    expect(topic.isJoined()).toBe(false)
    await events(1)
    expect(topic.isJoined()).toBe(true)
    expect(connection.state).toBe('open')
    expect(await topic.push('echo', { a: 1 })).toEqual({ status: 'ok', response: { a: 1 } })
    expect(await topic.push('refuse', {})).toEqual({ status: 'error', response: { reason: 'no' } })
    expect(await topic.push('ignore', {})).toEqual({ status: 'timeout' })
    server.broadcast('news', { hot: true })
    server.broadcast('gossip', {})
    server.sayBytes('relay', 1, 2, 255)
    expect(await events(3)).toEqual(['joined {"welcome":1}', 'news {"hot":true}', 'relay 1,2,255'])
  })

  it('sends bytes, and only those of the view', async () => {
    const topic = join()
    await events(1)
    expect(await topic.push('relay', Uint8Array.of(9, 1, 2, 3, 9).subarray(1, 4))).toEqual({ status: 'ok', response: {} })
    const [frame] = server.binaries
    expect(frame?.[0]).toBe(0)
    expect([...(frame?.subarray(-3) ?? [])]).toEqual([1, 2, 3])
    expect(frame?.subarray(-8, -3).toString()).toBe('relay')
  })

  it('is joined again after a disconnect, with the current payload', async () => {
    const topic = join()
    await events(1)
    server.breakAll()
    await events(2)
    expect(topic.isJoined()).toBe(false)
    expect(await topic.push('echo', {})).toEqual({ status: 'offline' })
    expect(await events(3)).toEqual(['joined {"welcome":1}', 'lost', 'joined {"welcome":2}'])
    expect(server.joins).toEqual([{ attempt: 1 }, { attempt: 2 }])
  })

  it('is joined again after a rejection', async () => {
    server.refusal = { reason: 'page full' }
    join()
    await events(1)
    server.refusal = null
    expect(await events(2)).toEqual(['refused {"reason":"page full"}', 'joined {"welcome":2}'])
  })

  it('receives nothing after it was left', async () => {
    const topic = join()
    await events(1)
    topic.leave()
    server.broadcast('news', {})
    expect(await topic.push('echo', {})).toEqual({ status: 'offline' })
    const other = connection.join('page:y', [], { joined: () => note('joined y') })
    await events(2)
    expect(other.isJoined()).toBe(true)
    expect(happened).toEqual(['joined {"welcome":1}', 'joined y'])
  })
})

describe('a connection', () => {
  it('reports when it is lost and restored', async () => {
    connection.subscribe(note)
    await events(1)
    server.breakAll()
    expect((await events(3)).slice(0, 3)).toEqual(['open', 'offline', 'open'])
  })

  it('is verified by an answer of the server', async () => {
    join()
    await events(1)
    connection.subscribe(note)
    await connection.verify()
    expect(happened).toEqual(['joined {"welcome":1}'])
  })

  it('is replaced when the server does not answer, and verified when the next one is open', async () => {
    connection.close()
    connection = connect(server.endPoint, { transport: WebSocket, random: () => 0, verifyMs: UNANSWERED_MS })
    join()
    await events(1)
    server.isSilent = true
    const verified = connection.verify()
    connection.subscribe((state) => {
      if (state === 'offline') server.isSilent = false
      note(state)
    })
    await verified
    expect(await events(5)).toEqual(['joined {"welcome":1}', 'offline', 'lost', 'open', 'joined {"welcome":2}'])
  })

  it('is replaced when the server does not answer a push', async () => {
    connection.close()
    const impatient = { timeout: 4 * UNANSWERED_MS, verifyMs: UNANSWERED_MS, unansweredMs: UNANSWERED_MS }
    connection = connect(server.endPoint, { transport: WebSocket, random: () => 0, ...impatient })
    const topic = join()
    await events(1)
    await topic.push('echo', {})
    connection.subscribe((state) => {
      if (state === 'offline') server.isSilent = false
      note(state)
    })
    server.isSilent = true
    await topic.push('echo', {})
    expect(await events(5)).toEqual(['joined {"welcome":1}', 'offline', 'lost', 'open', 'joined {"welcome":2}'])
  })

  it('is verified when it is back, if it is lost already', async () => {
    connection.subscribe(note)
    await events(1)
    server.breakAll()
    await events(2)
    await connection.verify()
    expect(happened).toEqual(['open', 'offline', 'open'])
  })

  it('is retried less and less often, with jitter', () => {
    const delays = [1, 2, 3, 4, 5, 6, 7, 50].map((n) => reconnectDelay(n, () => 0.999999))
    expect(delays).toEqual([250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000])
    expect(reconnectDelay(1, () => 0)).toBe(125)
  })
})
