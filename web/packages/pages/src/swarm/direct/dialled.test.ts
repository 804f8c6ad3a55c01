import { beforeEach, describe, expect, it } from 'vitest'
import type { PeerId } from '../../bitswap/index.ts'
import { FakeClock } from '../../../test/fake-clock.ts'
import { FakeRtcNetwork } from '../../../test/fake-rtc-network.ts'
import { DiallingConnections } from './dialling-connections.ts'
import { directConnections } from './connections.ts'
import type { Dial } from './dialled.ts'
import { encodeReadFrame, encodeSegmentFrame } from './frame.ts'
import { withLength } from './frame-reader.ts'
import { encodeSignal, type Signal } from './signal.ts'
import { StreamChannel } from './stream-channel.ts'
import type { DirectConnectionsDeps, MessagePath } from '../direct-paths.ts'

const terminal = 'ff'.repeat(8) as PeerId
const offer = (call: number) =>
  ({ kind: 'web_transport', call, addresses: ['192.0.2.1:1'], certificate: '0'.repeat(64), secret: '0'.repeat(32) }) as const

let clock: FakeClock
beforeEach(() => {
  clock = new FakeClock()
})

/** A tab, and the end of its stream at the terminal. */
function tab() {
  const signals: Signal[] = []
  const events: string[] = []
  const dials: { until: AbortSignal; open: () => StreamChannel; fail: () => void }[] = []
  const toTab = new TransformStream<Uint8Array, Uint8Array>()
  const written: Uint8Array[] = []
  const unread: number[] = []
  let isClosed = false
  const path: { current: MessagePath | null } = { current: null }
  const dial: Dial = (_offer, until) =>
    new Promise((resolve) => {
      const writable = new WritableStream<Uint8Array>({ write: (bytes) => void written.push(bytes) })
      const session = { closed: new Promise<void>(() => {}), close: () => (isClosed = true) }
      const open = () => {
        const channel = new StreamChannel(session, { readable: toTab.readable, writable })
        resolve(channel)
        return channel
      }
      const fail = () => resolve(null)
      until.addEventListener('abort', fail)
      dials.push({ until, open, fail })
    })
  const deps: DirectConnectionsDeps = {
    clock,
    random: () => 0.5,
    self: () => '0'.repeat(16) as PeerId,
    stun: () => [],
    send: (_to, bytes) => {
      signals.push(JSON.parse(new TextDecoder().decode(bytes)) as Signal)
      return Promise.resolve(true)
    },
    emit: (event) => {
      if (event.kind === 'up') path.current = event.path
      if (event.kind === 'sent') event.message.isReported = true
      if (event.kind === 'down') unread.push(...event.unread.map(({ id }) => id))
      events.push(event.kind === 'segment' ? `segment ${event.segment.message}` : event.kind)
    },
  }
  const calls = directConnections(new FakeRtcNetwork(clock).make)(deps)
  const connections = new DiallingConnections(dial, calls, deps)
  const terminalWrites = toTab.writable.getWriter()
  return {
    calls,
    connections,
    signals,
    events,
    dials,
    written,
    path,
    unread,
    isClosed: () => isClosed,
    handle: (signal: Signal) => connections.handleSignal(terminal, encodeSignal(signal)),
    /** The terminal closes the stream. */
    end: async () => {
      await terminalWrites.close()
      await settle()
    },
    /** Bytes arrive from the terminal. */
    receive: async (bytes: Uint8Array) => {
      await terminalWrites.write(bytes)
      await settle()
    },
  }
}

const message = (id: number) => ({ id, bytes: Uint8Array.of(9, 9), blocks: [], isReported: false, isRelayed: false })
const settle = () => new Promise((resolve) => setTimeout(resolve, 5))
const segment = (message: number) => withLength(encodeSegmentFrame({ message, offset: 0, total: 3, bytes: Uint8Array.of(1, 2, 3) }))

async function opened() {
  const made = tab()
  made.handle(offer(1))
  made.dials[0]?.open()
  await settle()
  return made
}

describe('a terminal that offers a stream', () => {
  it('is dialled, and frames go both ways', async () => {
    const made = await opened()
    expect(made.connections.status(terminal)).toEqual({ kind: 'up' })
    await made.receive(segment(7))
    expect(made.events).toEqual(['up', 'segment 7'])
    made.path.current?.send(message(4))
    made.path.current?.acknowledge(7)
    await settle()
    const frames = made.written.map((bytes) => [...bytes.subarray(2)])
    expect(frames[0]?.[0]).toBe(0)
    expect(frames[1]).toEqual([...encodeReadFrame(7)])
    await made.receive(withLength(encodeReadFrame(4)))
    expect([made.path.current?.hasUnread(4), made.events.at(-1)]).toEqual([false, 'sent'])
    expect(made.signals).toEqual([])
  })

  it('is told if this browser did not reach it in three seconds', async () => {
    const slow = tab()
    slow.handle(offer(4))
    expect(slow.connections.status(terminal)).toEqual({ kind: 'calling', hindrance: null })
    clock.pass(3_000)
    await settle()
    expect(slow.signals).toEqual([{ kind: 'hang_up', call: 4, reason: 'failed' }])
    expect(slow.connections.status(terminal)).toEqual({ kind: 'untried' })
    expect(slow.events).toEqual([])
  })

  it('leaves its unread messages to the relay when the stream closes', async () => {
    const made = await opened()
    made.path.current?.send(message(4))
    await made.end()
    expect(made.events).toEqual(['up', 'sent', 'down', 'ended'])
    expect(made.unread).toEqual([4])
    expect(made.isClosed()).toBe(true)
    expect(made.connections.size).toBe(0)
  })

  it('was not reached if its stream closes before it is used', async () => {
    const made = tab()
    made.handle(offer(1))
    made.dials[0]?.open().close()
    await settle()
    expect(made.connections.size).toBe(0)
    expect(made.events).toEqual([])
    expect(made.signals).toEqual([{ kind: 'hang_up', call: 1, reason: 'failed' }])
  })

  it('is ignored by a page that does not dial', () => {
    const made = tab()
    made.calls.handleSignal(terminal, encodeSignal(offer(3)))
    expect([made.signals, made.events, made.dials]).toEqual([[], [], []])
  })

  it('keeps the stream when signals of its call arrive late', async () => {
    const made = await opened()
    made.handle({ kind: 'offer', call: 2, sdp: 'v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n' })
    await settle()
    expect(made.signals).toEqual([])
    expect(made.connections.size).toBe(1)
  })

  it.each<[string, Uint8Array]>([
    ['an empty frame', Uint8Array.of(0, 0)],
    ['a frame that is too long', Uint8Array.of(0xff, 0xff)],
    ['a frame of no kind', withLength(Uint8Array.of(9, 0, 0, 0, 0))],
  ])('is dropped for %s', async (_what, bytes) => {
    const made = await opened()
    await made.receive(bytes)
    expect(made.events).toContain('misbehaved')
  })

  it('is dropped if it offers more than eight streams a minute', () => {
    const made = tab()
    for (let call = 0; call < 9; call++) made.handle(offer(call))
    expect(made.events).toEqual(['misbehaved'])
    expect(made.dials.filter(({ until }) => !until.aborted)).toHaveLength(1)
  })
})
