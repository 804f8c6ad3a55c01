import { beforeEach, describe, expect, it } from 'vitest'
import type { Reply } from '@watchfire/client/connection'
import type { PeerId } from '../bitswap/index.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { decodeSignalFrame } from './segment.ts'
import { SignalSender } from './signal-sender.ts'

const [a, b] = ['000000000000000a', '000000000000000b'] as [PeerId, PeerId]
const ok: Reply = { status: 'ok', response: {} }
const later: Reply = { status: 'error', response: { reason: 'too many signals', retry_after_ms: 70 } }
const gone: Reply = { status: 'error', response: { reason: 'peer gone' } }

let clock: FakeClock
let pushed: { to: string; value: number; answer: (reply: Reply) => void }[]
let box: SignalSender
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
beforeEach(() => {
  clock = new FakeClock()
  pushed = []
  box = new SignalSender(
    (frame) =>
      new Promise((answer) => {
        const { from, signal } = decodeSignalFrame(frame.buffer) ?? { from: '', signal: [] }
        pushed.push({ to: from, value: signal[0] ?? -1, answer })
      }),
    clock,
  )
})
const answer = async (reply: Reply) => {
  pushed.shift()?.answer(reply)
  await settled()
}

describe('signals', () => {
  it('are sent to each peer in order, one at a time', async () => {
    const delivered = [box.send(a, Uint8Array.of(1)), box.send(a, Uint8Array.of(2)), box.send(b, Uint8Array.of(3))]
    await settled()
    expect(pushed.map(({ to, value }) => [to, value])).toEqual([
      [a, 1],
      [b, 3],
    ])
    await answer(ok)
    await answer(ok)
    await answer(ok)
    expect(await Promise.all(delivered)).toEqual([true, true, true])
  })

  it('are retried if the server says so, and not if the peer has left', async () => {
    const first = box.send(a, Uint8Array.of(1))
    await settled()
    await answer(later)
    clock.pass(69)
    await settled()
    expect(pushed).toEqual([])
    clock.pass(1)
    await settled()
    await answer(gone)
    expect(await first).toBe(false)
  })

  it('are retried for as long as a peer may be busy', async () => {
    const delivered = box.send(a, Uint8Array.of(1))
    await settled()
    for (let tries = 0; tries < 100; tries++) {
      await answer(later)
      clock.pass(70)
      await settled()
    }
    await answer(ok)
    expect(await delivered).toBe(true)
  })

  it('are dropped after the retry period', async () => {
    const delivered = box.send(a, Uint8Array.of(1))
    await settled()
    let tries = 0
    for (; pushed.length > 0; tries++) {
      await answer(later)
      clock.pass(70)
      await settled()
    }
    expect(await delivered).toBe(false)
    expect(tries).toBeLessThan(300)
  })

  it('are dropped if the server does not reply', async () => {
    const delivered = box.send(a, Uint8Array.of(1))
    for (let tries = 0; tries < 2; tries++) {
      await settled()
      expect(pushed).toHaveLength(1)
      await answer({ status: 'timeout' })
    }
    expect(await delivered).toBe(false)
  })

  it('are queued for a peer up to a limit', async () => {
    const delivered = Array.from({ length: 40 }, () => box.send(a, Uint8Array.of(1)))
    expect(await delivered[32]).toBe(false)
    await settled()
    await answer({ status: 'offline' })
    expect(await delivered[0]).toBe(false)
  })
})
