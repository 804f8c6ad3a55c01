import type { Nanos } from './time.ts'

/** Counters of an exchange since it was created. */
export interface Totals {
  messagesIn: number
  messagesOut: number
  /** Wanted blocks that arrived, and their bytes. */
  blocksIn: number
  bytesIn: number
  blocksOut: number
  bytesOut: number
  /** Requested blocks that arrived when they were no longer wanted. */
  duplicateBlocks: number
  duplicateBytes: number
  /** Blocks that arrived and were never wanted. */
  unsolicitedBlocks: number
  unsolicitedBytes: number
  /** Second want-blocks for a block that was already requested. */
  endgameRequests: number
  /** Wants of peers that did not fit into their account. */
  rejectedWants: number
  /** Requests that were cancelled because the peer timed out. */
  silentRequests: number
  /** Wants and presences that were skipped: too many in a message, or with a hash function that cannot be checked. */
  skippedEntries: number
  droppedPeers: number
}

export function emptyTotals(): Totals {
  return {
    messagesIn: 0,
    messagesOut: 0,
    blocksIn: 0,
    bytesIn: 0,
    blocksOut: 0,
    bytesOut: 0,
    duplicateBlocks: 0,
    duplicateBytes: 0,
    unsolicitedBlocks: 0,
    unsolicitedBytes: 0,
    endgameRequests: 0,
    rejectedWants: 0,
    silentRequests: 0,
    skippedEntries: 0,
    droppedPeers: 0,
  }
}

/** Counters of one peer, and how fast it is. */
export interface PeerTotals {
  /** Wanted blocks that the peer sent, and their bytes. */
  readonly blocksIn: number
  readonly bytesIn: number
  readonly blocksOut: number
  readonly bytesOut: number
  /** Blocks that are requested from the peer now. */
  readonly requestedBlocks: number
  /** Wants of the peer. */
  readonly wants: number
  /** Bytes that may be requested from the peer at a time. */
  readonly windowBytes: number
  /** Recent throughput of the peer, in bytes a second. 0 while unknown. */
  readonly bytesPerSecond: number
  /** The shortest recent time from a want to its answer. `null` before the first answer. */
  readonly latency: Nanos | null
}
