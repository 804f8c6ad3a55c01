import { beforeEach, describe, expect, it } from 'vitest'
import type { Reply } from '../channel/index.ts'
import type { PeerId } from '../bitswap/index.ts'
import { PretendClock } from './pretend-clock.ts'
import { decodeRelayFrame } from './segment.ts'
import { TwoWayPeer, type Unread, type Way } from './two-way-peer.ts'

let relayed: { message: number; length: number; answer: (reply: Reply) => void }[]
let peer: TwoWayPeer
let direct: Way & { isUp: boolean; given: Unread[] }

beforeEach(() => {
  relayed = []
  peer = new TwoWayPeer('0000000000000001' as PeerId, {
    clock: new PretendClock(),
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
    tellRead: () => {},
    takeBack: () => direct.given.splice(0),
  }
})

const bytes = (length: number) => new Uint8Array(length)
const ok: Reply = { status: 'ok', response: {} }

describe('a peer with two ways', () => {
  it('is sent to by relay until there is another way, and numbers all messages through', () => {
    void peer.send(bytes(1))
    peer.goDirect(direct)
    void peer.send(bytes(2))
    expect(relayed.map(({ message, length }) => [message, length])).toEqual([[0, 1]])
    expect(direct.given.map(({ id, message }) => [id, message.length])).toEqual([[1, 2]])
    expect([peer.path, peer.movedBytes]).toEqual(['direct', 3])
  })

  it('ends by relay what began there, and gets the rest of what waits directly', async () => {
    const [begun, waiting, next] = [400_000, 500_000, 600_000].map((length) => peer.send(bytes(length)))
    expect(new Set(relayed.map(({ message }) => message))).toEqual(new Set([0]))
    peer.goDirect(direct)
    expect(direct.given.map(({ id, message }) => [id, message.length])).toEqual([[1, 500_000], [2, 600_000]])
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

  it('gets by relay what may not have arrived directly, under the same number', async () => {
    peer.goDirect(direct)
    const sending = peer.send(bytes(5))
    direct.isUp = false
    peer.goByRelay()
    expect(relayed.map(({ message, length }) => [message, length])).toEqual([[0, 5]])
    void peer.send(bytes(6))
    expect(relayed.at(-1)).toMatchObject({ message: 1, length: 6 })
    relayed[0]?.answer(ok)
    await sending
    expect(peer.path).toBe('relay')
  })

  it('is lost on both ways when it is closed', async () => {
    const first = peer.send(bytes(1))
    peer.goDirect(direct)
    const second = peer.send(bytes(2))
    peer.close()
    await expect(first).rejects.toThrow()
    await expect(second).rejects.toThrow()
    await expect(peer.send(bytes(3))).rejects.toThrow()
  })
})
