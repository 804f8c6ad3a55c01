import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { connect, type Connection } from '@watchfire/client/connection'

/** A `WebSocket` that does what the test says. A failed handshake is an error and a close, as in a browser. */
class FakeWebSocket {
  static made: FakeWebSocket[] = []
  readyState = 0
  bufferedAmount = 0
  onopen = () => undefined
  onerror = (_: unknown) => undefined
  onclose = (_: unknown) => undefined

  constructor() {
    FakeWebSocket.made.push(this)
  }

  open(): void {
    this.readyState = 1
    this.onopen()
  }

  fail(): void {
    this.readyState = 3
    this.onerror({})
    this.onclose({ code: 1006 })
  }

  send(): void {}

  close(): void {
    if (this.readyState === 3) return
    this.readyState = 3
    this.onclose({ code: 1006 })
  }
}

interface Question {
  url: unknown
  init: RequestInit | undefined
  answer: (response: Response) => void
  fail: (reason: Error) => void
}

let questions: Question[]
let connection: Connection
let states: string[]
beforeEach(() => {
  vi.useFakeTimers()
  // The address of the socket is made from the page's.
  vi.stubGlobal('location', { protocol: 'http:', host: 'example.org' })
  FakeWebSocket.made = []
  questions = []
  connection = connect('/socket', {
    transport: class extends FakeWebSocket {},
    fetch: (url, init) =>
      new Promise((resolve, reject) => {
        questions.push({ url, init, answer: resolve, fail: reject })
      }),
    random: () => 0,
  })
  states = []
  connection.subscribe((state, wait) => states.push(wait === null ? state : `${state} ${wait}`))
})
afterEach(() => {
  connection.close()
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

const LONG_MS = 600_000
const attempts = () => FakeWebSocket.made.length
const latest = () => FakeWebSocket.made.at(-1)
const status = (code: number) => new Response(JSON.stringify({ status: code }))

describe('a connection that has never been open', () => {
  it('is refused when the server refuses the origin, and is not tried again', async () => {
    latest()?.fail()
    expect(states).toEqual(['offline', 'offline 125'])
    const [{ url, init, answer } = {}] = questions
    expect([url, init?.method]).toEqual(['/socket/longpoll?vsn=2.0.0', 'POST'])
    answer?.(status(403))
    await vi.advanceTimersByTimeAsync(LONG_MS)
    expect(connection.state).toBe('refused')
    expect(states).toEqual(['offline', 'offline 125', 'refused'])
    expect([attempts(), questions.length]).toEqual([1, 1])
  })

  it('is refused during the next attempt if the answer takes longer, and that attempt ends', async () => {
    latest()?.fail()
    await vi.advanceTimersByTimeAsync(125)
    expect([attempts(), latest()?.readyState]).toEqual([2, 0])
    questions[0]?.answer(status(403))
    await vi.advanceTimersByTimeAsync(LONG_MS)
    expect(connection.state).toBe('refused')
    expect([attempts(), latest()?.readyState]).toEqual([2, 3])
  })

  it.each<[string, (question: Question) => void]>([
    ['accepts the origin', ({ answer }) => answer(status(410))],
    ['does not answer', ({ fail }) => fail(new TypeError('Failed to fetch'))],
    ['answers without JSON', ({ answer }) => answer(new Response('<h1>403</h1>', { status: 403 }))],
    ['answers with other JSON', ({ answer }) => answer(new Response('[403]'))],
  ])('is tried again when the server %s, with one question for each failed attempt', async (_, react) => {
    for (const attempt of [1, 2, 3]) {
      latest()?.fail()
      expect([attempts(), questions.length]).toEqual([attempt, attempt])
      const question = questions.at(-1)
      if (question) react(question)
      await vi.advanceTimersByTimeAsync(1000)
      expect(connection.state).toBe('offline')
    }
    expect(attempts()).toBe(4)
  })

  it('asks one question at a time', async () => {
    latest()?.fail()
    await vi.advanceTimersByTimeAsync(1000)
    latest()?.fail()
    await vi.advanceTimersByTimeAsync(1000)
    expect([attempts(), questions.length]).toEqual([3, 1])
  })

  it('is open when the socket opens before the answer, whatever that is', async () => {
    latest()?.fail()
    await vi.advanceTimersByTimeAsync(125)
    latest()?.open()
    expect(questions[0]?.init?.signal?.aborted).toBe(true)
    questions[0]?.answer(status(403))
    await vi.advanceTimersByTimeAsync(1000)
    expect(connection.state).toBe('open')
  })

  it('stays closed when it is closed before the answer', async () => {
    latest()?.fail()
    connection.close()
    expect(questions[0]?.init?.signal?.aborted).toBe(true)
    questions[0]?.answer(status(403))
    await vi.advanceTimersByTimeAsync(LONG_MS)
    expect(states).toEqual(['offline', 'offline 125'])
    expect([attempts(), questions.length]).toEqual([1, 1])
  })
})

describe('a connection that has been open', () => {
  it('is tried again after each loss, without a question', async () => {
    latest()?.open()
    for (const attempt of [2, 3, 4]) {
      latest()?.fail()
      await vi.advanceTimersByTimeAsync(1000)
      expect([attempts(), questions.length]).toEqual([attempt, 0])
    }
    latest()?.open()
    expect(connection.state).toBe('open')
  })
})
