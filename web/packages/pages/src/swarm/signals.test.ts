import { beforeEach, describe, expect, it } from 'vitest'
import type { Reply } from '@watchfire/client/connection'
import type { PeerId } from '../bitswap/index.ts'
import type { Bytes } from '../content/index.ts'
import { decodeSignalFrame } from './segment.ts'
import { Signals } from './signals.ts'

const [a, b] = ['000000000000000a', '000000000000000b'] as [PeerId, PeerId]
const ok: Reply = { status: 'ok', response: {} }
const later: Reply = { status: 'error', response: { reason: 'too many signals', retry_after_ms: 70 } }
const gone: Reply = { status: 'error', response: { reason: 'peer gone' } }

let signals: Signals
/** For each signal, whether it was delivered. */
let settled: [value: number, isDelivered: boolean][]
beforeEach(() => {
  signals = new Signals()
  settled = []
})

const signalIn = (frame: Bytes | null) => frame && decodeSignalFrame(frame.buffer)?.signal[0]
/** Returns the value of the signal to send now. */
const push = (to: PeerId, value: number) =>
  signalIn(signals.push(0, to, Uint8Array.of(value), (isDelivered) => settled.push([value, isDelivered])))
const answer = (now: number, to: PeerId, reply: Reply) => signalIn(signals.handleReply(now, to, reply))

describe('signals', () => {
  it('are sent to each peer in order, one at a time', () => {
    expect([push(a, 1), push(a, 2), push(b, 3)]).toEqual([1, null, 3])
    expect(answer(0, a, ok)).toBe(2)
    expect([answer(0, b, ok), answer(0, a, ok)]).toEqual([null, null])
    expect(settled).toEqual([1, 3, 2].map((value) => [value, true]))
  })

  it('are retried if the server says so, and not if the peer has left', () => {
    push(a, 1)
    expect(answer(0, a, later)).toBeNull()
    expect([signals.takeDue(69), signals.nextWake()]).toEqual([[], 70])
    expect(signals.takeDue(70).map(([to, frame]) => [to, signalIn(frame)])).toEqual([[a, 1]])
    expect([signals.takeDue(1000), signals.nextWake()]).toEqual([[], Infinity])
    answer(1000, a, gone)
    expect(settled).toEqual([[1, false]])
  })

  it('are retried for as long as a peer may be busy, and then dropped', () => {
    push(a, 1)
    let now = 0
    for (; settled.length === 0; now += 70) {
      answer(now, a, later)
      signals.takeDue(now + 70)
    }
    expect(settled).toEqual([[1, false]])
    expect(now).toBeGreaterThanOrEqual(15_000)
    expect(now).toBeLessThan(15_200)
  })

  it('are dropped if the server does not reply twice', () => {
    push(a, 1)
    push(a, 2)
    expect(answer(0, a, { status: 'timeout' })).toBe(1)
    expect(answer(0, a, { status: 'timeout' })).toBe(2)
    expect(settled).toEqual([[1, false]])
  })

  it('are queued for a peer up to a limit', () => {
    for (let value = 0; value < 40; value++) push(a, value)
    expect(settled).toEqual(Array.from({ length: 8 }, (_, i) => [32 + i, false]))
    expect(answer(0, a, { status: 'offline' })).toBe(1)
    expect(settled.at(-1)).toEqual([0, false])
  })
})
