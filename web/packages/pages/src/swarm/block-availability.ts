import { BitSet, type Input, type Message, type PeerId } from '../bitswap/index.ts'
import type { Cid, CidKey } from '../content/index.ts'
import type { BlockMap, Have, Rarest } from './api.ts'

/** The known blocks of one peer, by their numbers. */
interface PeerBlocks {
  have: Have
  readonly blocks: BitSet
}

/** For each block that was asked for, in that order, which peers have it. */
interface Copies {
  readonly copies: Uint8Array
  /** The number of copies on nodes. */
  readonly inNodes: Uint8Array
  /** For each block, one bit for each of the first 32 peers. */
  readonly holders: Uint32Array
  /** The bits of the peers that are nodes. */
  readonly nodes: number
}

/**
 * The blocks of each peer, as far as messages show: those it announces, sends, wants and is sent. Only for display.
 * No decision depends on it.
 */
export class BlockAvailability {
  /** Whether a block belongs to the page. Other blocks are not remembered. */
  readonly #isOfPage: (cid: Cid) => boolean
  /** The blocks mentioned in messages, numbered in that order. */
  readonly #numbers = new Map<CidKey, number>()
  readonly #peers = new Map<PeerId, PeerBlocks>()

  constructor(isOfPage: (cid: Cid) => boolean) {
    this.#isOfPage = isOfPage
  }

  /** Handles an input of the page's exchange. */
  handleInput(input: Input): void {
    // Other inputs do not show what peers have.
    if (input.kind === 'disconnected') this.#peers.delete(input.peer)
    else if (input.kind === 'message') this.#noteReceived(input.peer, input.message, input.blocks)
  }

  /** These blocks were sent to the peer. */
  noteSent(peer: PeerId, blocks: readonly Cid[]): void {
    for (const cid of blocks) this.#set(peer, cid, true)
  }

  /** The number of blocks that a peer has, of `total`. `null` if it has an unknown part. */
  countOf(peer: PeerId, total: number | null): number | null {
    const holding = this.#peers.get(peer)
    if (holding === undefined) return null
    if (holding.have === 'all') return total
    const { size } = holding.blocks
    return size === 0 && holding.have === 'some' ? null : Math.min(size, total ?? Infinity)
  }

  /** The peers that have these blocks. */
  copiesOf(cids: readonly Cid[], isNode: (peer: PeerId) => boolean): Copies {
    const { length } = cids
    const copies = new Uint8Array(length)
    const inNodes = new Uint8Array(length)
    const holders = new Uint32Array(length)
    const numbers = Int32Array.from(cids, ({ key }) => this.#numbers.get(key) ?? -1)
    let peer = 0
    let nodes = 0
    for (const [id, { have, blocks }] of this.#peers) {
      const mark = peer < 32 ? 1 << peer : 0
      peer++
      const more = isNode(id) ? 1 : 0
      if (more === 1) nodes |= mark
      for (let i = 0; i < length; i++) {
        if (have !== 'all' && !blocks.has(numbers[i] ?? -1)) continue
        copies[i] = Math.min(255, (copies[i] ?? 0) + 1)
        inNodes[i] = Math.min(255, (inNodes[i] ?? 0) + more)
        holders[i] = (holders[i] ?? 0) | mark
      }
    }
    return { copies, inNodes, holders, nodes }
  }

  /** Sets how much of the page a peer has, as the server's messages show. */
  setHave(peer: PeerId, have: Have): void {
    const known = this.#peers.get(peer)
    if (known === undefined) this.#peers.set(peer, { have, blocks: new BitSet() })
    else known.have = have
  }

  #noteReceived(peer: PeerId, message: Pick<Message, 'wants' | 'presences'>, blocks: readonly { readonly cid: Cid }[]): void {
    for (const { cid } of blocks) this.#set(peer, cid, true)
    for (const { cid, hasBlock } of message.presences) this.#set(peer, cid, hasBlock)
    for (const { cid, kind, cancel } of message.wants) if (kind === 'block' && !cancel) this.#set(peer, cid, false)
  }

  #set(peer: PeerId, cid: Cid, has: boolean): void {
    const holding = this.#peers.get(peer)
    if (holding === undefined || !this.#isOfPage(cid)) return
    const number = this.#numbers.get(cid.key) ?? this.#numbers.size
    this.#numbers.set(cid.key, number)
    if (has) holding.blocks.insert(number)
    else holding.blocks.remove(number)
  }
}

/** The places of these blocks of a page. `blocks`: all known blocks, in the order of the page. */
export function mapBlocks(
  blocks: readonly Cid[],
  isHere: (cid: Cid) => boolean,
  availability: BlockAvailability,
  isNode: (peer: PeerId) => boolean,
): BlockMap {
  const here = Uint8Array.from(blocks, (cid) => (isHere(cid) ? 1 : 0))
  const known = availability.copiesOf(blocks, isNode)
  return { here, elsewhere: known.copies, rarest: rarestOf(here, known) }
}

/** Of the blocks that anybody has, this tab included, those with the fewest copies. */
function rarestOf(here: Uint8Array, { copies: elsewhere, inNodes, holders, nodes }: Copies): Rarest | null {
  let copies = Infinity
  let blocks = 0
  let marks = 0
  let isOurs = false
  let nodeCopies: number | null = null
  for (const [i, ours] of here.entries()) {
    const all = ours + (elsewhere[i] ?? 0)
    if (all === 0 || all > copies) continue
    if (all < copies) {
      copies = all
      blocks = 0
      marks = 0
      isOurs = false
      nodeCopies = inNodes[i] ?? 0
    }
    if (nodeCopies !== inNodes[i]) nodeCopies = null
    blocks++
    marks |= holders[i] ?? 0
    isOurs ||= ours === 1
  }
  if (blocks === 0) return null
  return { copies, blocks, holders: onesOf(marks) + (isOurs ? 1 : 0), isOurs, nodes: onesOf(marks & nodes), inNodes: nodeCopies }
}

function onesOf(bits: number): number {
  return (bits >>> 0).toString(2).replaceAll('0', '').length
}
