import { beforeEach, describe, expect, it } from 'vitest'
import type { Reply } from '@watchfire/client/connection'
import type { PeerId } from '../bitswap/index.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { decodeRelayFrame } from './segment.ts'
import type { UnacknowledgedMessage, MessagePath } from './message-path.ts'
import { DualPathPeer } from './dual-path-peer.ts'

let clock: FakeClock
let isConnecting: boolean
let relayed: { message: number; length: number; answer: (reply: Reply) => void }[]
let peer: DualPathPeer
let direct: MessagePath & { isUp: boolean; given: UnacknowledgedMessage[] }

beforeEach(() => {
  clock = new FakeClock()
  isConnecting = false
  relayed = []
  peer = new DualPathPeer('0000000000000001' as PeerId, {
    clock,
    isConnecting: () => isConnecting,
    frameBytesMax: 65_536,
    push: (frame) =>
      new Promise((answer) => {
        const { message, bytes } = decodeRelayFrame(frame.buffer)?.segment ?? { message: -1, bytes: [] }
        relayed.push({ message, length: bytes.length, answer })
      }),
  })
  direct = {
    isUp: true,
    given: [],
    send: (id, message) => new Promise((resolve, reject) => direct.given.push({ id, message, resolve, reject })),
    hasUnread: (id) => direct.given.some((each) => each.id === id),
    acknowledge: () => {},
    takeUnacknowledged: () => direct.given.splice(0),
  }
})

const bytes = (length: number) => new Uint8Array(length)
const ok: Reply = { status: 'ok', response: {} }
const busy: Reply = { status: 'error', response: { reason: 'peer busy', retry_after_ms: 50 } }
/** Replies to the frame that has waited longest. */
const answer = (reply: Reply) => {
  relayed.shift()?.answer(reply)
  return new Promise((resolve) => setImmediate(resolve))
}
const given = () => direct.given.map(({ id, message }) => [id, message.length])

describe('a peer with two paths', () => {
  it('uses the relay until there is a direct path, and numbers all messages in one sequence', () => {
    void peer.send(bytes(1))
    peer.useDirect(direct)
    void peer.send(bytes(2))
    expect(relayed.map(({ message, length }) => [message, length])).toEqual([[0, 1]])
    expect(given()).toEqual([
      [0, 1],
      [1, 2],
    ])
    expect([peer.path, peer.movedBytes]).toEqual(['direct', 3])
  })

  it('keeps the order of short messages while the server refuses one of them and the path changes twice', async () => {
    const sending = [1, 2, 3].map((length) => peer.send(bytes(length)))
    await answer(ok)
    expect(relayed.map(({ message }) => message)).toEqual([1])
    peer.useDirect(direct)
    sending.push(peer.send(bytes(4)))
    expect(given().map(([id]) => id)).toEqual([0, 1, 2, 3])
    await answer(busy)
    clock.pass(1000)
    expect(relayed).toEqual([])

    direct.isUp = false
    peer.useRelay()
    const order: number[] = []
    while (relayed.length > 0) {
      order.push(relayed[0]?.message ?? -1)
      await answer(ok)
    }
    expect(order).toEqual([1, 2, 3])
    await Promise.all(sending)
    expect(peer.unsentBytes).toBe(0)
  })

  it('remembers only the last accepted messages for the direct path', async () => {
    for (let i = 0; i < 20; i++) void peer.send(bytes(1000))
    while (relayed.length > 0) await answer(ok)
    peer.useDirect(direct)
    expect(given().map(([id]) => id)).toEqual(Array.from({ length: 16 }, (_, i) => i + 4))
    direct.isUp = false
    for (let i = 0; i < 3; i++) void peer.send(bytes(12_000))
    while (relayed.length > 0) await answer(ok)
    direct.given = []
    direct.isUp = true
    peer.useDirect(direct)
    expect(given().map(([id]) => id)).toEqual([21, 22])
  })

  it('finishes a started message on the relay, and sends the queued ones directly', async () => {
    const [begun, waiting, next] = [400_000, 500_000, 600_000].map((length) => peer.send(bytes(length)))
    expect(new Set(relayed.map(({ message }) => message))).toEqual(new Set([0]))
    peer.useDirect(direct)
    expect(given()).toEqual([
      [1, 500_000],
      [2, 600_000],
    ])
    for (const { resolve } of direct.given) resolve()
    await Promise.all([waiting, next])
    for (let frame = relayed.shift(); frame !== undefined; frame = relayed.shift()) {
      expect(frame.message).toBe(0)
      frame.answer(ok)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await begun
    expect(peer.unsentBytes).toBe(0)
  })

  it('sends blocks directly that waited for the connection, and wants by relay meanwhile', () => {
    isConnecting = true
    void peer.send(bytes(1_000_000))
    void peer.send(bytes(100))
    expect(relayed.map(({ message }) => message)).toEqual([1])
    clock.pass(500)
    peer.useDirect(direct)
    clock.pass(1000)
    expect(relayed.map(({ message }) => message)).toEqual([1])
    expect(given()).toEqual([
      [1, 100],
      [0, 1_000_000],
    ])
  })

  it('relays blocks for which no connection came up in time, and lets no further ones wait', () => {
    isConnecting = true
    void peer.send(bytes(140_000))
    clock.pass(500)
    expect(relayed).toEqual([])
    clock.pass(200)
    void peer.send(bytes(140_000))
    expect(relayed.map(({ message }) => message)).toEqual([0, 0, 0, 1])
    expect(direct.given).toEqual([])
  })

  it('sends unacknowledged direct messages over the relay, under the same number', async () => {
    peer.useDirect(direct)
    const sending = peer.send(bytes(5))
    direct.isUp = false
    peer.useRelay()
    expect(relayed.map(({ message, length }) => [message, length])).toEqual([[0, 5]])
    void peer.send(bytes(6))
    relayed[0]?.answer(ok)
    await sending
    expect(relayed.at(-1)).toMatchObject({ message: 1, length: 6 })
    expect(peer.path).toBe('relay')
  })

  it('is lost on both paths when it is closed', async () => {
    const first = peer.send(bytes(1))
    peer.useDirect(direct)
    const second = peer.send(bytes(2))
    peer.close()
    await expect(first).rejects.toThrow()
    await expect(second).rejects.toThrow()
    await expect(peer.send(bytes(3))).rejects.toThrow()
  })
})

describe('messages with blocks', () => {
  const LONG = 20_000

  it('are read when the server has accepted them, or when the peer acknowledges them', async () => {
    void peer.send(bytes(LONG), true)
    void peer.send(bytes(1))
    expect(peer.acknowledgedMessages).toBe(0)
    await answer(ok)
    expect(peer.acknowledgedMessages).toBe(1)
    peer.useDirect(direct)
    for (let i = 0; i < 3; i++) void peer.send(bytes(LONG), true)
    expect([peer.acknowledgedMessages, peer.blockMessages]).toEqual([1, 4])
    // The third is read, so the second was lost.
    direct.given.splice(direct.given.length - 2, 1)
    expect(peer.acknowledgedMessages).toBe(3)
  })

  it('are not read while they are sent again, because the direct path broke', async () => {
    peer.useDirect(direct)
    void peer.send(bytes(LONG), true)
    direct.isUp = false
    peer.useRelay()
    expect(peer.acknowledgedMessages).toBe(0)
    await answer(ok)
    expect(peer.acknowledgedMessages).toBe(1)
  })
})
