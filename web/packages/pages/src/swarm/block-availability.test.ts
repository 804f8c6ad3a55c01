import { beforeAll, describe, expect, it } from 'vitest'
import type { Input, PeerId } from '../bitswap/index.ts'
import { cidOf, type Cid } from '../content/index.ts'
import { BlockAvailability, mapBlocks } from './block-availability.ts'

const [ann, bo] = ['a'.repeat(16) as PeerId, 'b'.repeat(16) as PeerId]
const noNode = () => false
let cids: Cid[]
beforeAll(async () => {
  cids = await Promise.all(Array.from({ length: 20 }, (_, i) => cidOf(0x55, Uint8Array.of(i))))
})

const some = (...numbers: number[]) => numbers.map((n) => cids[n] ?? fail(n))
const fail = (n: number): never => {
  throw new Error(`no block ${n}`)
}

function world() {
  const availability = new BlockAvailability((cid) => cids.slice(0, 18).includes(cid))
  const says = (peer: PeerId, { has = [] as Cid[], lacks = [] as Cid[], wants = [] as Cid[], sends = [] as Cid[] }) => {
    const presences = [...has.map((cid) => ({ cid, hasBlock: true })), ...lacks.map((cid) => ({ cid, hasBlock: false }))]
    const entries = wants.map((cid) => ({ cid, kind: 'block' as const, cancel: false, priority: 1, sendDontHave: true }))
    const message = { full: false, wants: entries, presences, pendingBytes: 0 }
    const blocks = sends.map((cid) => ({ cid, data: new Uint8Array(1) }))
    availability.handleInput({ kind: 'message', peer, message, blocks, skippedEntries: 0, skippedBlocks: 0 } satisfies Input)
  }
  const copies = () => [...availability.copiesOf(cids, () => false).copies]
  return { availability, says, copies }
}

describe('the blocks of a peer', () => {
  it('are those it announces, sends and is sent, without those it lacks or wants', () => {
    const { availability, says, copies } = world()
    availability.setHave(ann, 'some')
    expect(availability.countOf(ann, 18)).toBe(null)
    says(ann, { has: some(0, 1, 2), sends: some(3), lacks: some(5) })
    availability.noteSent(ann, some(4))
    says(ann, { wants: some(2) })
    expect(copies().flatMap((count, i) => (count > 0 ? [i] : []))).toEqual([0, 1, 3, 4])
    expect(availability.countOf(ann, 18)).toBe(4)
    says(ann, { lacks: some(0, 0) })
    expect(availability.countOf(ann, 18)).toBe(3)
  })

  it('are all blocks if the server says so', () => {
    const { availability, copies } = world()
    availability.setHave(ann, 'none')
    expect(availability.countOf(ann, 18)).toBe(0)
    availability.setHave(ann, 'all')
    expect(availability.countOf(ann, 18)).toBe(18)
    expect(copies()).toEqual(Array<number>(20).fill(1))
  })

  it('are forgotten when it leaves, and those of unknown peers or other pages are ignored', () => {
    const { availability, says, copies } = world()
    says(bo, { has: some(0) })
    availability.setHave(bo, 'some')
    says(bo, { has: some(18, 19, 7) })
    expect(availability.countOf(bo, 18)).toBe(1)
    availability.handleInput({ kind: 'disconnected', peer: bo })
    expect(copies()).toEqual(Array<number>(20).fill(0))
  })
})

describe('the block map', () => {
  it('shows the rarest blocks and their holders', () => {
    const { availability, says } = world()
    for (const peer of [ann, bo]) availability.setHave(peer, 'some')
    says(ann, { has: some(0, 1, 2, 3) })
    says(bo, { has: some(1, 2) })
    const page = some(0, 1, 2, 3, 4)
    const ours = new Set(some(1, 2))
    const map = mapBlocks(page, (cid) => ours.has(cid), availability, noNode)
    expect([[...map.here], [...map.elsewhere]]).toEqual([
      [0, 1, 1, 0, 0],
      [1, 2, 2, 1, 0],
    ])
    // No peer has the last block, so it is not among the rarest.
    expect(map.rarest).toEqual({ copies: 1, blocks: 2, holders: 1, isOurs: false, nodes: 0, inNodes: 0 })
  })

  it('counts this tab among the holders', () => {
    const { availability, says } = world()
    for (const peer of [ann, bo]) availability.setHave(peer, 'some')
    says(ann, { has: some(0) })
    says(bo, { has: some(1) })
    const map = mapBlocks(some(0, 1, 2), (cid) => cid === cids[2], availability, noNode)
    expect(map.rarest).toEqual({ copies: 1, blocks: 3, holders: 3, isOurs: true, nodes: 0, inNodes: 0 })
    expect(mapBlocks(some(5), () => false, availability, noNode).rarest).toBe(null)
  })

  it('counts nodes separately', () => {
    const { availability, says } = world()
    for (const peer of [ann, bo]) availability.setHave(peer, 'some')
    says(ann, { has: some(0, 1) })
    says(bo, { has: some(1, 2) })
    const rarestOf = (...numbers: number[]) =>
      mapBlocks(
        some(...numbers),
        () => false,
        availability,
        (peer) => peer === bo,
      ).rarest
    expect(rarestOf(2)).toEqual({ copies: 1, blocks: 1, holders: 1, isOurs: false, nodes: 1, inNodes: 1 })
    expect(rarestOf(1)).toEqual({ copies: 2, blocks: 1, holders: 2, isOurs: false, nodes: 1, inNodes: 1 })
    // One copy is in a tab, the other on a node.
    expect(rarestOf(0, 1, 2)).toEqual({ copies: 1, blocks: 2, holders: 2, isOurs: false, nodes: 1, inNodes: null })
  })
})
