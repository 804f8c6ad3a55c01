import { MILLI, SECOND, type Nanos } from './time.ts'

/** The limits of an exchange. The defaults are those of the Rust core. */
export interface Limits {
  /**
   * Wants remembered per peer. When the limit is reached, new wants get DONT_HAVE if they ask for an answer, and are
   * dropped if not.
   */
  readonly wantsPerPeerMax: number
  /** Wants sent to one peer at a time. The others wait until some of these are answered. */
  readonly sentWantsPerPeerMax: number
  /**
   * Bytes of blocks being read, or read and not sent yet, for all peers together, including peers that have left. One
   * block is always allowed. It is also the usual maximum in flight to all peers.
   */
  readonly readingBytesMax: number
  /** A message with blocks is sent when it has this many bytes. A longer block is sent alone. */
  readonly messageBytesMax: number
  /** A want-have for a block of at most this many bytes is answered with the block. */
  readonly inlineBlockBytesMax: number
  /** Bytes to request from one peer at a time, at least and at most. One block is always allowed. */
  readonly windowBytesMin: number
  readonly windowBytesMax: number
  /**
   * Bytes to request from all peers together at most. One block is always allowed. All peers may answer at once, and
   * partial messages are in memory.
   */
  readonly requestedBytesMax: number
  /** The assumed length of a block while it is unknown. */
  readonly blockBytesEstimate: number
  /** The number of a thousand wanted blocks that may be requested twice in the endgame. One is always allowed. */
  readonly endgameDuplicatesPerMille: number
  /** After a message, how long messages that are not urgent are collected. */
  readonly batchingDelay: Nanos
  /**
   * After this time without data from a peer, its blocks are requested from another peer. Longer if the peer usually
   * takes longer.
   */
  readonly responseTimeout: Nanos
  /** The same time for a peer that has not answered yet, so that nobody knows how long it takes. */
  readonly firstResponseTimeout: Nanos
  /** A peer that announced requested blocks and sends nothing for this long is dropped. */
  readonly stalledAfter: Nanos
  /** Blocks not requested from a peer that it may send, in addition to as many as it sent useful blocks. */
  readonly unrequestedBlocksMax: number
  /** Blocks never wanted that a peer may send once a block was requested from it. */
  readonly unsolicitedBlocksMax: number
  /** The wait before the next provider search. It doubles each time, up to the maximum. */
  readonly searchInterval: Nanos
  readonly searchIntervalMax: Nanos
}

/** The defaults of the Rust core. */
export const defaultLimits: Limits = {
  wantsPerPeerMax: 1024,
  sentWantsPerPeerMax: 960,
  readingBytesMax: 6 << 20,
  messageBytesMax: 1 << 20,
  inlineBlockBytesMax: 1024,
  windowBytesMin: 512 << 10,
  windowBytesMax: 32 << 20,
  requestedBytesMax: 16 << 20,
  blockBytesEstimate: 256 << 10,
  endgameDuplicatesPerMille: 10,
  batchingDelay: 20 * MILLI,
  responseTimeout: SECOND,
  firstResponseTimeout: 10 * SECOND,
  stalledAfter: 600 * SECOND,
  unrequestedBlocksMax: 16,
  unsolicitedBlocksMax: 0,
  searchInterval: SECOND,
  searchIntervalMax: 60 * SECOND,
}

/**
 * The most want-haves at a peer while this many blocks are requested from it. A quarter stays free for
 * want-blocks, because want-haves without an answer would otherwise fill the wantlist.
 */
export function wantHavesMax({ sentWantsPerPeerMax: max }: Limits, requested: number): number {
  return Math.min(max - Math.floor(max / 4), Math.max(0, max - requested))
}
