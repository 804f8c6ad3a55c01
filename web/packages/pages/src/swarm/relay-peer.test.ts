import { beforeEach, describe, expect, it } from 'vitest'
import type { Reply } from '@watchfire/client/connection'
import type { PeerId } from '../bitswap/index.ts'
import { PeerLost } from './peer.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { RelayPeer } from './relay-peer.ts'
import { decodeRelayFrame, RELAY_OVERHEAD_BYTES } from './segment.ts'

interface Frame {
  readonly message: number
  readonly offset: number
  readonly length: number
  readonly answer: (reply: Reply) => Promise<void>
}

let clock: FakeClock
let frames: Frame[]
let peer: RelayPeer
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

beforeEach(() => {
  clock = new FakeClock()
  frames = []
  sends = 0
  peer = new RelayPeer('0000000000000001' as PeerId, {
    clock,
    // Ten bytes of a message in each frame.
    frameBytesMax: RELAY_OVERHEAD_BYTES + 10,
    push: (frame) =>
      new Promise((resolve) => {
        const decoded = decodeRelayFrame(frame.buffer)
        if (decoded === null) throw new Error('only frames are pushed')
        const { message, offset, bytes } = decoded.segment
        const answer = (reply: Parameters<typeof resolve>[0]) => {
          resolve(reply)
          return settled()
        }
        frames.push({ message, offset, length: bytes.length, answer })
      }),
  })
})

/** The sender numbers its messages. */
let sends = 0
const send = (message: Uint8Array<ArrayBuffer>) => peer.send(message, sends++)
const ok: Reply = { status: 'ok', response: {} }
const refused = (reason: string, more = {}): Reply => ({ status: 'error', response: { reason, ...more } })
const sent = () => frames.map(({ message, offset }) => [message, offset])
/** Replies to the frame that has waited longest. */
const answer = async (reply: Reply) => {
  const frame = frames.shift()
  if (frame === undefined) throw new Error('a frame waits')
  await frame.answer(reply)
}

describe('a relayed message', () => {
  it('is sent frame by frame, at most four without a reply, and is done when all are accepted', async () => {
    let isThrough = false
    const sending = send(new Uint8Array(55)).then(() => (isThrough = true))
    expect(sent()).toEqual([
      [0, 0],
      [0, 10],
      [0, 20],
      [0, 30],
    ])
    await answer(ok)
    expect(sent()).toEqual([
      [0, 10],
      [0, 20],
      [0, 30],
      [0, 40],
    ])
    await answer(ok)
    expect(frames.at(-1)).toMatchObject({ offset: 50, length: 5 })
    for (let i = 0; i < 3; i++) await answer(ok)
    expect(isThrough).toBe(false)
    await answer(ok)
    await sending
    expect(frames).toEqual([])
  })

  it('is overtaken by a short message if it is long', async () => {
    void send(new Uint8Array(20_000))
    void send(new Uint8Array(5))
    await answer(ok)
    expect(sent().at(-1)).toEqual([1, 0])
  })

  it('waits until the one before it is accepted if both are short', async () => {
    void send(new Uint8Array(5))
    void send(new Uint8Array(3))
    expect(sent()).toEqual([[0, 0]])
    await answer(refused('peer busy', { retry_after_ms: 50 }))
    clock.pass(50)
    expect(sent()).toEqual([[0, 0]])
    await answer(ok)
    expect(sent()).toEqual([[1, 0]])
  })

  it('is not overtaken by another long message', async () => {
    const lengths = [20_003, 20_002, 20_001]
    for (const length of lengths) void send(new Uint8Array(length))
    const order: number[] = []
    while (frames.length > 0) {
      order.push(frames[0]?.message ?? -1)
      await answer(ok)
    }
    expect(order).toEqual(lengths.flatMap((_, i) => Array.from({ length: 2001 }, () => i)))
  })

  it('waits for the given delay if the peer is busy, and sends the rejected part again', async () => {
    void send(new Uint8Array(100))
    await answer(refused('peer busy', { retry_after_ms: 50 }))
    await answer(ok)
    expect(sent()).toEqual([
      [0, 20],
      [0, 30],
    ])
    clock.pass(49)
    expect(frames).toHaveLength(2)
    clock.pass(1)
    expect(sent()).toEqual([
      [0, 20],
      [0, 30],
      [0, 0],
      [0, 40],
    ])
  })

  it('asks a peer that stays busy with one frame at a time, and less and less often', async () => {
    void send(new Uint8Array(200))
    for (let first = 0; first < 4; first++) await answer(refused('peer busy', { retry_after_ms: 50 }))
    for (const delay of [50, 100, 200, 400, 800, 1000, 1000]) {
      expect(frames).toEqual([])
      clock.pass(delay - 1)
      expect(frames).toEqual([])
      clock.pass(1)
      expect(frames).toHaveLength(1)
      await answer(refused('peer busy', { retry_after_ms: 50 }))
    }
    clock.pass(1000)
    await answer(ok)
    expect(frames).toHaveLength(4)
  })

  it('waits if the relay quota of the page is used up', async () => {
    void send(new Uint8Array(10))
    await answer(refused('relay budget', { retry_after_ms: 700 }))
    clock.pass(699)
    expect(frames).toEqual([])
    clock.pass(1)
    expect(sent()).toEqual([[0, 0]])
  })

  it('never waits longer than the maximum, for any delay that the server sends', async () => {
    void send(new Uint8Array(10))
    await answer(refused('relay budget', { retry_after_ms: 1e12 }))
    clock.pass(10_000)
    expect(frames).toHaveLength(1)
    await answer(refused('relay budget', { retry_after_ms: 'soon' }))
    clock.pass(50)
    expect(frames).toHaveLength(1)
  })

  it('is sent in smaller frames if the server says that they are too large', async () => {
    void send(new Uint8Array(30))
    await answer(refused('relay frame too large', { max: RELAY_OVERHEAD_BYTES + 6 }))
    await answer(refused('relay frame too large', { max: RELAY_OVERHEAD_BYTES + 6 }))
    expect(frames.map(({ offset, length }) => [offset, length])).toEqual([
      [20, 10],
      [0, 6],
      [6, 4],
      [10, 6],
    ])
  })

  it('is sent again without a reply, up to a limit', async () => {
    const sending = send(new Uint8Array(10))
    await answer({ status: 'timeout' })
    await answer({ status: 'timeout' })
    expect(frames).toHaveLength(1)
    void answer({ status: 'timeout' })
    await expect(sending).rejects.toThrow(PeerLost)
  })
})

describe('a peer', () => {
  it.each<[string, Reply]>([
    ['has left', refused('peer gone')],
    ['is rejected for an unknown reason', refused('unmatched topic')],
    ['cannot be reached because this tab is offline', { status: 'offline' }],
    ['accepts only frames without data', refused('relay frame too large', { max: 3 })],
  ])('that %s is lost, with all messages for it', async (_what, reply) => {
    const sendings = [send(new Uint8Array(10)), send(new Uint8Array(10))]
    void answer(reply)
    for (const sending of sendings) await expect(sending).rejects.toThrow(PeerLost)
    await expect(send(new Uint8Array(1))).rejects.toThrow(PeerLost)
  })

  it('is lost when it has been busy for half a minute', async () => {
    const sending = send(new Uint8Array(10))
    sending.catch(() => {})
    for (let waited = 0; waited <= 30_000; waited += 5000) {
      await answer(refused('peer busy', { retry_after_ms: 5000 }))
      clock.pass(5000)
    }
    await expect(sending).rejects.toThrow('does not read')
  })

  it('sends nothing after it was closed', async () => {
    const sending = send(new Uint8Array(100))
    peer.close()
    await expect(sending).rejects.toThrow(PeerLost)
    await answer(ok)
    expect(frames).toHaveLength(3)
  })
})
