import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { connect, type Connection } from '@watchfire/client/connection'

/** A server that answers all messages, or none. */
class Transport {
  static answers = true
  static made: Transport[] = []
  readyState = 1
  binaryType = 'blob'
  pings = 0
  onopen: ((event: unknown) => void) | null = null
  onmessage: ((event: { data: unknown }) => void) | null = null

  constructor() {
    Transport.made.push(this)
    setTimeout(() => this.onopen?.({}), 1)
  }

  send(text: string): void {
    const [joinRef, ref, topic, event] = JSON.parse(text) as (string | null)[]
    if (event === 'heartbeat') this.pings++
    if (Transport.answers) setTimeout(() => this.receive([joinRef, ref, topic, 'phx_reply', { status: 'ok', response: {} }]), 1)
  }

  receive(frame: unknown): void {
    this.onmessage?.({ data: JSON.stringify(frame) })
  }

  close(): void {}
}

let connection: Connection
const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds)
const pings = () => Transport.made.reduce((sum, transport) => sum + transport.pings, 0)
/** Anything arrives each second. */
async function hear(seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    await pass(1000)
    Transport.made.at(-1)?.receive([null, null, 'other', 'news', {}])
  }
}
async function join() {
  const topic = connection.join('page:x', [], {})
  await pass(10)
  return topic
}

beforeEach(() => {
  vi.useFakeTimers()
  Transport.answers = true
  Transport.made = []
  connection = connect('ws://server/socket', { transport: Transport, timeout: 60_000, fetch: () => Promise.reject(new Error('no')) })
})
afterEach(() => {
  connection.close()
  vi.useRealTimers()
})

describe('a connection', () => {
  it('is replaced six seconds after a push that the server does not answer', async () => {
    const topic = await join()
    Transport.answers = false
    void topic.push('echo', {})
    await pass(5990)
    expect(Transport.made).toHaveLength(1)
    await pass(20)
    expect(Transport.made).toHaveLength(2)
  })

  it('is kept while anything arrives', async () => {
    const topic = await join()
    Transport.answers = false
    void topic.push('echo', {})
    await hear(20)
    expect([pings(), Transport.made.length]).toEqual([0, 1])
    void connection.verify()
    await hear(9)
    expect(pings()).toBeGreaterThan(0)
    expect(Transport.made).toHaveLength(1)
  })

  it('is asked once, however many callers doubt it, and not at all when pushes are answered', async () => {
    const topic = await join()
    void topic.push('echo', {})
    await pass(10_000)
    expect(pings()).toBe(0)
    const verified = Promise.all([connection.verify(), connection.verify(), connection.verify()])
    await pass(10)
    await verified
    expect([pings(), Transport.made.length]).toEqual([1, 1])
  })

  it('gets more time soon after another one was replaced, because the link may only be slow', async () => {
    await join()
    const replacedAfter = async () => {
      const { length } = Transport.made
      Transport.answers = false
      const began = performance.now()
      void connection.verify()
      while (Transport.made.length === length) await pass(500)
      const seconds = Math.round((performance.now() - began) / 1000)
      Transport.answers = true
      await pass(100)
      return seconds
    }
    expect([await replacedAfter(), await replacedAfter(), await replacedAfter()]).toEqual([4, 8, 16])
    await pass(100_000)
    expect(await replacedAfter()).toBe(4)
  })
})
