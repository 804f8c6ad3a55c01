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
  /** Bytes of wanted blocks that the peer sent. */
  readonly bytesIn: number
  readonly bytesOut: number
  /** Recent throughput of the peer, in bytes a second. 0 while unknown. */
  readonly bytesPerSecond: number
}
