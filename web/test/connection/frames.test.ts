import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { connect, type Connection, type Topic } from '@watchfire/client/connection'

/** A `WebSocket` that is open when the test says so, and remembers what was sent. */
class FakeWebSocket {
  static made: FakeWebSocket[] = []
  readyState = 0
  readonly sent: unknown[] = []
  onopen = () => undefined
  onmessage = (_: unknown) => undefined
  onclose = () => undefined

  constructor() {
    FakeWebSocket.made.push(this)
  }

  open(): void {
    this.readyState = 1
    this.onopen()
  }

  receive(data: unknown): void {
    this.onmessage({ data })
  }

  send(message: unknown): void {
    this.sent.push(typeof message === 'string' ? JSON.parse(message) : message)
  }

  close(): void {
    this.readyState = 3
  }
}

let connection: Connection
let happened: string[]
const socket = () => FakeWebSocket.made.at(-1) as FakeWebSocket
const bytesOf = (...parts: (number | string)[]) =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === 'number' ? part : [...new TextEncoder().encode(part)]))).buffer

beforeEach(() => {
  vi.useFakeTimers()
  FakeWebSocket.made = []
  happened = []
  // The tests of liveness are in a file of their own.
  const options = { random: () => 0, fetch: () => Promise.reject(new Error('no')), unansweredMs: 3_600_000 }
  connection = connect('wss://example.org/socket', { transport: FakeWebSocket, ...options })
})
afterEach(() => {
  connection.close()
  vi.useRealTimers()
})

function join(name = 'page:x'): Topic {
  return connection.join(name, ['news'], {
    joined: () => happened.push(`joined ${name}`),
    refused: () => happened.push(`refused ${name}`),
    lost: () => happened.push(`lost ${name}`),
    message: (_, payload) => happened.push(payload instanceof ArrayBuffer ? `bytes ${new Uint8Array(payload)}` : JSON.stringify(payload)),
  })
}

/** Opens the socket and accepts its joins. */
function openAll(): void {
  socket().open()
  for (const [joinRef, ref, topic] of socket().sent as string[][]) {
    socket().receive(JSON.stringify([joinRef, ref, topic, 'phx_reply', { status: 'ok', response: {} }]))
  }
}

describe('a connection', () => {
  it('ignores messages that are not valid', () => {
    join()
    openAll()
    const broken = ['', '[', '{}', 'null', '[1,2]', '[null,null,1,2,3]', '["1","1","page:x","phx_reply"]']
    for (const text of broken) socket().receive(text)
    const cut = [bytesOf(), bytesOf(0), bytesOf(0, 1), bytesOf(0, 255, 255, 255, 'x'), bytesOf(2, 6, 200, 'page:x'), bytesOf(9, 1, 1, 1)]
    for (const bytes of cut) socket().receive(bytes)
    socket().receive(bytesOf(2, 6, 4, 'page:x', 'news', 7, 255))
    socket().receive('[null,null,"page:x","news",{"a":1}]')
    expect(happened).toEqual(['joined page:x', 'bytes 7,255', '{"a":1}'])
  })

  it('sends no bytes to a topic whose name is too long for a binary message', async () => {
    const topic = join(`page:${'x'.repeat(300)}`)
    openAll()
    const timers = vi.getTimerCount()
    await expect(topic.push('relay', Uint8Array.of(1))).rejects.toThrow('its name is too long')
    expect(vi.getTimerCount()).toBe(timers)
  })

  it('joins a topic once that a listener joins when the connection opens', () => {
    connection.subscribe((state) => state === 'open' && join())
    openAll()
    expect(socket().sent.map((frame) => (frame as string[])[3])).toEqual(['phx_join'])
    expect(happened).toEqual(['joined page:x'])
  })

  it('gives a topic to its latest join', () => {
    join()
    openAll()
    join()
    expect(happened).toEqual(['joined page:x', 'lost page:x'])
    expect(socket().sent.map((frame) => (frame as string[])[3])).toEqual(['phx_join', 'phx_leave', 'phx_join'])
    openAll()
    socket().receive('["1",null,"page:x","news",{"late":1}]')
    expect(happened.filter((one) => one.includes('late'))).toEqual([])
  })

  it('joins a topic again that has crashed, and not one that the server has closed', () => {
    join()
    join('page:y')
    openAll()
    socket().receive('["1","1","page:x","phx_error",{}]')
    socket().receive('["2","2","page:y","phx_close",{}]')
    expect(happened.slice(2)).toEqual(['lost page:x', 'lost page:y'])
    const before = socket().sent.length
    vi.advanceTimersByTime(10_000)
    expect(
      socket()
        .sent.slice(before)
        .map((frame) => (frame as string[])[2]),
    ).toEqual(['page:x'])
  })

  it('is made again when no heartbeat is answered', () => {
    socket().open()
    vi.advanceTimersByTime(30_000)
    expect(socket().sent).toEqual([[null, '1', 'phoenix', 'heartbeat', {}]])
    vi.advanceTimersByTime(30_000)
    expect([connection.state, socket().readyState]).toEqual(['offline', 3])
    vi.advanceTimersByTime(1000)
    expect(FakeWebSocket.made.length).toBe(2)
  })

  it('does not report the join of a topic that was left before the answer', () => {
    const topic = join()
    socket().open()
    topic.leave()
    socket().receive('["1","1","page:x","phx_reply",{"status":"ok","response":{}}]')
    expect([happened, topic.isJoined()]).toEqual([[], false])
  })

  it('leaves a topic whose join is answered too late', () => {
    join()
    socket().open()
    vi.advanceTimersByTime(10_000)
    expect(socket().sent.map((frame) => (frame as string[])[3])).toEqual(['phx_join', 'phx_leave'])
    socket().receive('["1","1","page:x","phx_reply",{"status":"ok","response":{}}]')
    expect(happened).toEqual([])
  })
})
