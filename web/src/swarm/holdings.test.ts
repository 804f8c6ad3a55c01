import { beforeAll, describe, expect, it } from 'vitest'
import type { Input, PeerId } from '../bitswap/index.ts'
import { cidOf, type Cid } from '../content/index.ts'
import { mapBlocks } from './block-map.ts'
import { Holdings } from './holdings.ts'

const [ann, bo] = ['a'.repeat(16) as PeerId, 'b'.repeat(16) as PeerId]
const nobody = () => false
let cids: Cid[]
beforeAll(async () => {
  cids = await Promise.all(Array.from({ length: 20 }, (_, i) => cidOf(0x55, Uint8Array.of(i))))
})

const some = (...numbers: number[]) => numbers.map((n) => cids[n] ?? fail(n))
const fail = (n: number): never => {
  throw new Error(`no block ${n}`)
}

function world() {
  const holdings = new Holdings((cid) => cids.slice(0, 18).includes(cid))
  const says = (peer: PeerId, { has = [] as Cid[], lacks = [] as Cid[], wants = [] as Cid[], sends = [] as Cid[] }) => {
    const presences = [...has.map((cid) => ({ cid, have: true })), ...lacks.map((cid) => ({ cid, have: false }))]
    const asked = wants.map((cid) => ({ cid, type: 'block' as const, cancel: false, priority: 1, sendDontHave: true }))
    const message = { full: false, wants: asked, presences, pendingBytes: 0 }
    const blocks = sends.map((cid) => ({ cid, data: new Uint8Array(1) }))
    holdings.follow({ kind: 'received', peer, message, blocks, passedOver: 0, passedOverBlocks: 0 } satisfies Input)
  }
  const copies = () => [...holdings.copiesOf(cids.map(({ key }) => key), () => false).copies]
  return { holdings, says, copies }
}

describe('what a peer has', () => {
  it('is what it says, sends and is sent, and not what it lacks or wants', () => {
    const { holdings, says, copies } = world()
    holdings.join(ann, 'some')
    expect(holdings.countOf(ann, 18)).toBe(null)
    says(ann, { has: some(0, 1, 2), sends: some(3), lacks: some(5) })
    holdings.give(ann, some(4))
    says(ann, { wants: some(2) })
    expect(copies().flatMap((count, i) => (count > 0 ? [i] : []))).toEqual([0, 1, 3, 4])
    expect(holdings.countOf(ann, 18)).toBe(4)
    says(ann, { lacks: some(0, 0) })
    expect(holdings.countOf(ann, 18)).toBe(3)
  })

  it('is all, by the word of the server', () => {
    const { holdings, copies } = world()
    holdings.join(ann, 'none')
    expect(holdings.countOf(ann, 18)).toBe(0)
    holdings.join(ann, 'all')
    expect(holdings.countOf(ann, 18)).toBe(18)
    expect(copies()).toEqual(Array<number>(20).fill(1))
  })

  it('is all when, by the count of the server, everybody has all', () => {
    const { holdings, copies } = world()
    holdings.join(ann, 'none')
    expect(holdings.haveOf(ann)).toBe('none')
    // The count of one who was alone, told when somebody had come.
    holdings.everybodyHasAll(1)
    expect(holdings.haveOf(ann)).toBe('none')
    holdings.everybodyHasAll(2)
    expect([holdings.haveOf(ann), holdings.haveOf(bo), copies()[0]]).toEqual(['all', null, 1])
  })

  it('is nothing once it has left, and nothing of strangers or other pages is remembered', () => {
    const { holdings, says, copies } = world()
    says(bo, { has: some(0) })
    holdings.join(bo, 'some')
    says(bo, { has: some(18, 19, 7) })
    expect(holdings.countOf(bo, 18)).toBe(1)
    holdings.follow({ kind: 'disconnected', peer: bo })
    expect(copies()).toEqual(Array<number>(20).fill(0))
  })
})

describe('the map of blocks', () => {
  it('tells the rarest, and who has them', () => {
    const { holdings, says } = world()
    for (const peer of [ann, bo]) holdings.join(peer, 'some')
    says(ann, { has: some(0, 1, 2, 3) })
    says(bo, { has: some(1, 2) })
    const page = some(0, 1, 2, 3, 4)
    const ours = new Set(some(1, 2))
    const map = mapBlocks(page, (cid) => ours.has(cid), holdings, nobody)
    expect([[...map.here], [...map.elsewhere]]).toEqual([[0, 1, 1, 0, 0], [1, 2, 2, 1, 0]])
    // Nobody has the last one, which is another story.
    expect(map.rarest).toEqual({ copies: 1, blocks: 2, holders: 1, isOurs: false, nodes: 0, inNodes: 0 })
  })

  it('counts this tab among those who hold the last copies', () => {
    const { holdings, says } = world()
    for (const peer of [ann, bo]) holdings.join(peer, 'some')
    says(ann, { has: some(0) })
    says(bo, { has: some(1) })
    const map = mapBlocks(some(0, 1, 2), (cid) => cid === cids[2], holdings, nobody)
    expect(map.rarest).toEqual({ copies: 1, blocks: 3, holders: 3, isOurs: true, nodes: 0, inNodes: 0 })
    expect(mapBlocks(some(5), () => false, holdings, nobody).rarest).toBe(null)
  })

  it('tells nodes from tabs', () => {
    const { holdings, says } = world()
    for (const peer of [ann, bo]) holdings.join(peer, 'some')
    says(ann, { has: some(0, 1) })
    says(bo, { has: some(1, 2) })
    const rarestOf = (...numbers: number[]) => mapBlocks(some(...numbers), () => false, holdings, (peer) => peer === bo).rarest
    expect(rarestOf(2)).toEqual({ copies: 1, blocks: 1, holders: 1, isOurs: false, nodes: 1, inNodes: 1 })
    expect(rarestOf(1)).toEqual({ copies: 2, blocks: 1, holders: 2, isOurs: false, nodes: 1, inNodes: 1 })
    // The one is in a tab, the other in a node.
    expect(rarestOf(0, 1, 2)).toEqual({ copies: 1, blocks: 2, holders: 2, isOurs: false, nodes: 1, inNodes: null })
  })
})
