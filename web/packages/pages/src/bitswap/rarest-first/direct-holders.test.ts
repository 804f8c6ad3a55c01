import { beforeEach, describe, expect, it } from 'vitest'
import { makeCid, RAW, SHA2_256, type Cid } from '../../content/index.ts'
import { Exchange, MILLI, type Block, type Input, type PeerId } from '../index.ts'

const MIB = 1 << 20
const cid = (n: number): Cid => makeCid(1, RAW, SHA2_256, new Uint8Array(32).fill(n))
const cids = Array.from({ length: 40 }, (_, n) => cid(n))
const [near, close, far] = ['000000000000000a', '000000000000000b', '000000000000000c'] as [PeerId, PeerId, PeerId]

let exchange: Exchange
let requested: Map<PeerId, number>
let last: Map<PeerId, Cid>
let now: number
beforeEach(() => {
  exchange = new Exchange(7n)
  requested = new Map()
  last = new Map()
  now = 1
})

function handle(...inputs: Input[]): void {
  for (const input of inputs) exchange.handle(now, input)
  for (let output = exchange.pollOutput(); output !== null; output = exchange.pollOutput()) {
    if (output.kind !== 'send') continue
    const blocks = output.message.wants.filter(({ kind, cancel }) => kind === 'block' && !cancel)
    requested.set(output.peer, (requested.get(output.peer) ?? 0) + blocks.length)
    for (const { cid: block } of blocks) last.set(output.peer, block)
  }
}

/** The peers have all of the blocks; these have a direct connection. */
function connect(...direct: PeerId[]): void {
  for (const peer of [near, close, far]) {
    const isDirect = direct.includes(peer)
    handle({ kind: 'connected', peer, isProvider: true }, { kind: 'path', peer, isDirect }, { kind: 'writable', peer, roomBytes: MIB })
  }
  handle({ kind: 'want', wants: cids.map((each) => ({ cid: each, length: 20_000, urgency: 0 })) })
}

function message(peer: PeerId, presences: { cid: Cid; hasBlock: boolean }[], blocks: Block[]): Input {
  const rest = { full: false, wants: [], pendingBytes: 0 }
  return { kind: 'message', peer, message: { ...rest, presences }, blocks, skippedEntries: 0, skippedBlocks: 0 }
}

function lacks(peer: PeerId, block: Cid): void {
  handle(message(peer, [{ cid: block, hasBlock: false }], []))
}

/** The peer sends the block that was requested last from it, this much later. */
function sends(peer: PeerId, nanos: number): void {
  now += nanos
  const block = last.get(peer)
  if (block !== undefined) handle(message(peer, [], [{ cid: block, data: new Uint8Array(20_000) }]))
}

describe('a peer on the relay', () => {
  it('is not asked for blocks that two peers have directly', () => {
    connect(near, close)
    expect([requested.get(near), requested.get(close)]).toEqual([1, 1])
    expect(requested.get(far) ?? 0).toBe(0)
  })

  it('is asked if only one peer has them directly, which may be slow', () => {
    connect(near)
    expect(requested.get(far)).toBe(1)
  })

  it('is asked when one of the two uses the relay again, or leaves', () => {
    for (const input of [{ kind: 'path', peer: close, isDirect: false } as const, { kind: 'disconnected', peer: close } as const]) {
      exchange = new Exchange(7n)
      requested = new Map()
      connect(near, close)
      handle(input)
      expect(requested.get(far)).toBe(1)
    }
  })

  it('is asked for a block that the others lack', () => {
    connect(near, close)
    lacks(close, cid(3))
    expect(requested.get(far)).toBe(1)
  })

  it('is not asked for it while two others send blocks, unless they are slow', () => {
    for (const milliseconds of [20, 1000]) {
      exchange = new Exchange(7n)
      requested = new Map()
      connect(near, close)
      for (const peer of [near, close]) sends(peer, milliseconds * MILLI)
      lacks(close, cid(3))
      expect(requested.get(far) ?? 0).toBe(milliseconds > 100 ? 1 : 0)
    }
  })
})
