import type { Message } from '../bitswap/index.ts'
import type { Bytes, Cid, WantedBlock } from '../content/index.ts'

declare const brand: unique symbol
/** Who a peer is on this page's topic: sixteen hex digits. */
export type PeerId = string & { readonly [brand]: 'PeerId' }
/** Milliseconds of a clock that only grows. */
export type Millis = number

/** How much of a page a peer holds, by the server's word; presences tell it block by block. */
export type Have = 'all' | 'some' | 'none'

/**
 * Blocks travel apart from everything else, so that a want never waits behind a mebibyte. Each peer has at most one
 * message on its way in either lane.
 */
export type Lane = 'control' | 'blocks'

/** Everything that can happen to an exchange. */
export type Input =
  /** A peer was introduced, or what it holds changed. */
  | { readonly kind: 'joined'; readonly peer: PeerId; readonly have: Have }
  | { readonly kind: 'left'; readonly peer: PeerId }
  /** Blocks to fetch. */
  | { readonly kind: 'want'; readonly blocks: readonly WantedBlock[] }
  /** These are asked for before all others, in this order, instead of those named before. At most `URGENT_MAX`. */
  | { readonly kind: 'urgent'; readonly cids: readonly Cid[] }
  /** A block of our own, to serve from now on. */
  | { readonly kind: 'held'; readonly cid: Cid; readonly size: number }
  /** A block that was to be sent to this peer cannot be read any more. */
  | { readonly kind: 'lost'; readonly peer: PeerId; readonly cid: Cid }
  | {
      readonly kind: 'message'
      readonly peer: PeerId
      readonly message: Message
      /** With the CIDs that their bytes truly hash to. */
      readonly blocks: readonly { readonly cid: Cid; readonly bytes: Bytes }[]
      /** Blocks of hashes that we cannot check. */
      readonly uncheckable: number
    }
  /** Something could not be read as a message. */
  | { readonly kind: 'malformed'; readonly peer: PeerId }
  /** A part of a message arrived. */
  | { readonly kind: 'progress'; readonly peer: PeerId }
  /** The last `send` in this lane is through. */
  | { readonly kind: 'sent'; readonly peer: PeerId; readonly lane: Lane }
  | { readonly kind: 'tick' }

/** Everything an exchange wants done. */
export type Output =
  | {
      readonly kind: 'send'
      readonly peer: PeerId
      readonly lane: Lane
      readonly message: Message
      /** To be read from the store and sent along. */
      readonly blocks: readonly Cid[]
    }
  /** A block that was wanted is here, verified; it is served to others from now on. */
  | { readonly kind: 'arrived'; readonly peer: PeerId; readonly cid: Cid; readonly bytes: Bytes }
  /** This peer is no good: nothing more is to be read from it. */
  | { readonly kind: 'drop'; readonly peer: PeerId; readonly reason: DropReason }

/** Sent bytes that are not what it was asked for; sent what cannot be read; sent what nobody asked for, too often. */
export type DropReason = 'lied' | 'malformed' | 'flooded'

export interface ExchangeSettings {
  /** Peers known at once; more are not looked at. */
  readonly peersMax: number
  /** Blocks asked of one peer at a time; the next are asked when these arrive. */
  readonly blocksInFlightMax: number
  /** Their bytes, as far as known, a peer. One block is always allowed. */
  readonly bytesInFlightMax: number
  /** The same over all peers. */
  readonly bytesInFlightTotalMax: number
  /** Silence of an asked peer after which another is asked; doubled each time it stays silent. */
  readonly patience: Millis
  readonly patienceMax: Millis
  /** The same for one that is heard of, but gives nothing. */
  readonly giftPatience: Millis
  /** How long a want waits its turn with one peer before another may take it over. */
  readonly turnPatience: Millis
  /** How often a peer hears that its blocks wait their turn, lest it think us silent. */
  readonly turnToldInterval: Millis
  /** Wants remembered of one peer; further ones are answered with DONT_HAVE, or not at all. */
  readonly ledgerMax: number
  /** Blocks about which one peer is asked to tell when it has them. */
  readonly interestMax: number
  /** Bytes of blocks on their way to all peers; the next peer in turn waits. */
  readonly sendingBytesMax: number
  /** Bytes of blocks in one message; a larger block travels alone. */
  readonly messageBytesMax: number
  /** Blocks nobody asked for that a peer may send, beyond as many as were useful. */
  readonly unwantedMax: number
}

export const defaultExchangeSettings: ExchangeSettings = {
  peersMax: 64,
  blocksInFlightMax: 8,
  bytesInFlightMax: 4 << 20,
  bytesInFlightTotalMax: 16 << 20,
  patience: 1000,
  patienceMax: 30_000,
  giftPatience: 20_000,
  turnPatience: 2000,
  turnToldInterval: 500,
  ledgerMax: 1024,
  interestMax: 512,
  sendingBytesMax: 2 << 20,
  messageBytesMax: 64 << 10,
  unwantedMax: 64,
}

/** What an exchange has seen go wrong, since it began. */
export interface ExchangeCounts {
  /** Blocks that nobody asked for, or that were here already. */
  unwanted: number
  /** Peers dropped for sending wrong bytes. */
  lies: number
  /** Times that a want was taken from a silent peer. */
  silences: number
  /** Times that a want was taken from a busy peer, for another who was idle. */
  relieves: number
  /** Wants of peers that did not fit into their ledger. */
  ledgerOverflows: number
}
