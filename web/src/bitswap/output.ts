import type { Bytes, Cid } from '../content/index.ts'
import type { Message } from './message.ts'
import type { PeerId } from './peer.ts'

/** A block, whose bytes hash to its name. */
export interface Block {
  readonly cid: Cid
  readonly data: Bytes
}

/** A block to fetch. */
export interface Want {
  readonly cid: Cid
  /** Its bytes, if known: lets windows be filled exactly. */
  readonly length: number | null
  /** Higher is asked for first; among equals, what fewest peers have. */
  readonly urgency: number
}

/** A message as it came, hashed. */
export interface Received {
  readonly message: Message
  /** Under the names that their bytes truly have. */
  readonly blocks: readonly Block[]
  /** Wants and presences that were not read. */
  readonly passedOver: number
  /** Blocks that were not read: too many, or of a hash that cannot be checked. */
  readonly passedOverBlocks: number
}

/** Everything that can happen to an exchange. */
export type Input =
  /** A peer is here. Nothing is sent to it before `writable`. Whoever is said to have everything is a provider. */
  | { readonly kind: 'connected'; readonly peer: PeerId; readonly isProvider: boolean }
  | { readonly kind: 'disconnected'; readonly peer: PeerId }
  /** A message came, whole. From peers that are not connected it is ignored. */
  | ({ readonly kind: 'received'; readonly peer: PeerId } & Received)
  /** Part of a message came: the peer is alive, however slow. */
  | { readonly kind: 'arriving'; readonly peer: PeerId }
  /** The pipe to a peer has room for so many bytes now, whatever it said before. */
  | { readonly kind: 'writable'; readonly peer: PeerId; readonly roomBytes: number }
  /** A block is in the store: fetched, or put there. */
  | { readonly kind: 'have'; readonly cid: Cid; readonly length: number }
  /** The answer to `look`. */
  | { readonly kind: 'found'; readonly cid: Cid; readonly length: number | null }
  /** The answer to `read`: the block, if it could be read. */
  | { readonly kind: 'read'; readonly peer: PeerId; readonly cid: Cid; readonly block: Block | null }
  /** Blocks to fetch, besides those wanted already. What the store has is not to be wanted. */
  | { readonly kind: 'want'; readonly wants: readonly Want[] }
  | { readonly kind: 'unwant'; readonly cids: readonly Cid[] }
  /** These are asked first, in this order, instead of those named before. At most 64. */
  | { readonly kind: 'urgent'; readonly cids: readonly Cid[] }
  /** The answer to `find-providers`, when the search is over; none is an answer too. */
  | { readonly kind: 'providers'; readonly peers: readonly PeerId[] }
  | { readonly kind: 'tick' }

/** Everything an exchange wants done. */
export type Output =
  /** To be written to the peer, after what was sent to it before. */
  | { readonly kind: 'send'; readonly peer: PeerId; readonly message: Message; readonly blocks: readonly Block[] }
  /** Whether this block is in the store is asked, because a peer wants it. */
  | { readonly kind: 'look'; readonly cid: Cid }
  /** A block of the store is to be sent to a peer. To be answered with `read`, even if the peer has left meanwhile. */
  | { readonly kind: 'read'; readonly peer: PeerId; readonly cid: Cid }
  /** A wanted block arrived. It is served to others once `have` tells that it is stored. */
  | { readonly kind: 'got'; readonly block: Block; readonly from: PeerId }
  /** Nobody who is connected is known to have this block. One search is under way at a time. */
  | { readonly kind: 'find-providers'; readonly cid: Cid }
  /** This peer is no good; the exchange has forgotten it already. */
  | { readonly kind: 'drop'; readonly peer: PeerId; readonly reason: Misbehaviour }

/**
 * - `lied`: asked for blocks, it sent something else.
 * - `flooded`: it kept sending blocks that nobody had asked for.
 * - `stalled`: it claimed to have blocks, and never sent them.
 */
export type Misbehaviour = 'lied' | 'flooded' | 'stalled'
