import type { Input, Message, PeerId } from '../bitswap/index.ts'
import type { Cid, CidKey } from '../content/index.ts'
import type { Have } from './api.ts'

/** What one peer is known to have: a bit for each block that is numbered. */
interface Holding {
  have: Have
  bits: Uint8Array
  count: number
}

/** For each block, in the order of the question, the peers that have it. */
export interface Copies {
  readonly copies: Uint8Array
  /** How many of these are in nodes. */
  readonly inNodes: Uint8Array
  /** One bit for each of the first 32 peers. */
  readonly holders: Uint32Array
  /** The bits of those that are nodes. */
  readonly nodes: number
}

/**
 * What the others have, as far as can be told from what passes between us: what they say they have and lack, what they
 * sent, what they were sent. It is for showing to people, and decides nothing.
 */
export class Holdings {
  /** Which blocks belong to the page; of others nothing is remembered. */
  readonly #isOfPage: (cid: Cid) => boolean
  /** Blocks somebody spoke of, numbered in that order. */
  readonly #numbers = new Map<CidKey, number>()
  readonly #holdings = new Map<PeerId, Holding>()

  constructor(isOfPage: (cid: Cid) => boolean) {
    this.#isOfPage = isOfPage
  }

  /** Something happened to the page's exchange. */
  follow(input: Input): void {
    // What else happens tells nothing of what others have.
    if (input.kind === 'disconnected') this.#holdings.delete(input.peer)
    else if (input.kind === 'received') this.#hear(input.peer, input.message, input.blocks)
  }

  /**
   * By the server's count of so many, we among them, everybody has all of it: nobody tells a peer so by itself. A count that
   * is older than who came since says nothing.
   */
  everybodyHasAll(watching: number): void {
    if (this.#holdings.size >= watching) return
    for (const holding of this.#holdings.values()) holding.have = 'all'
  }

  /** How much it has; `null` when it is not here. */
  haveOf(peer: PeerId): Have | null {
    return this.#holdings.get(peer)?.have ?? null
  }

  /** It was sent these. */
  give(peer: PeerId, blocks: readonly Cid[]): void {
    for (const cid of blocks) this.#set(peer, cid, true)
  }

  /** Blocks that it has, of so many; `null` when it has a part, and nobody knows which. */
  countOf(peer: PeerId, total: number | null): number | null {
    const holding = this.#holdings.get(peer)
    if (holding === undefined) return null
    if (holding.have === 'all') return total
    return holding.count === 0 && holding.have === 'some' ? null : Math.min(holding.count, total ?? Infinity)
  }

  /** Who has these blocks. */
  copiesOf(keys: readonly CidKey[], isNode: (peer: PeerId) => boolean): Copies {
    const copies = new Uint8Array(keys.length)
    const inNodes = new Uint8Array(keys.length)
    const holders = new Uint32Array(keys.length)
    const numbers = Int32Array.from(keys, (key) => this.#numbers.get(key) ?? -1)
    let peer = 0
    let nodes = 0
    for (const [id, { have, bits }] of this.#holdings) {
      const mark = peer < 32 ? 1 << peer : 0
      peer++
      const more = isNode(id) ? 1 : 0
      if (more === 1) nodes |= mark
      for (let i = 0; i < keys.length; i++) {
        const n = numbers[i] ?? -1
        if (have !== 'all' && (n < 0 || ((bits[n >> 3] ?? 0) & (1 << (n & 7))) === 0)) continue
        copies[i] = Math.min(255, (copies[i] ?? 0) + 1)
        inNodes[i] = Math.min(255, (inNodes[i] ?? 0) + more)
        holders[i] = (holders[i] ?? 0) | mark
      }
    }
    return { copies, inNodes, holders, nodes }
  }

  /** A peer is here, or the server has told anew how much it has. */
  join(peer: PeerId, have: Have): void {
    const known = this.#holdings.get(peer)
    if (known === undefined) this.#holdings.set(peer, { have, bits: new Uint8Array(0), count: 0 })
    else known.have = have
  }

  #hear(peer: PeerId, message: Pick<Message, 'wants' | 'presences'>, blocks: readonly { readonly cid: Cid }[]): void {
    for (const { cid } of blocks) this.#set(peer, cid, true)
    for (const { cid, have } of message.presences) this.#set(peer, cid, have)
    for (const { cid, type, cancel } of message.wants) if (type === 'block' && !cancel) this.#set(peer, cid, false)
  }

  #set(peer: PeerId, cid: Cid, has: boolean): void {
    const holding = this.#holdings.get(peer)
    if (holding === undefined || !this.#isOfPage(cid)) return
    let n = this.#numbers.get(cid.key)
    if (n === undefined) this.#numbers.set(cid.key, (n = this.#numbers.size))
    const byte = n >> 3
    if (byte >= holding.bits.length) {
      if (!has) return
      const larger = new Uint8Array(Math.max(64, 2 * (byte + 1)))
      larger.set(holding.bits)
      holding.bits = larger
    }
    const bit = 1 << (n & 7)
    const before = holding.bits[byte] ?? 0
    const after = has ? before | bit : before & ~bit
    if (after === before) return
    holding.bits[byte] = after
    holding.count += has ? 1 : -1
  }
}
