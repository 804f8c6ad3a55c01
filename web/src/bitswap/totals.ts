import type { Nanos } from './time.ts'

/** What an exchange did since it began. */
export interface Totals {
  messagesIn: number
  messagesOut: number
  /** Blocks that came and were wanted, and their bytes. */
  blocksIn: number
  bytesIn: number
  blocksOut: number
  bytesOut: number
  /** Blocks that had been asked for and came when they were no longer wanted. */
  duplicateBlocks: number
  duplicateBytes: number
  /** Blocks that came and had never been asked for. */
  unaskedBlocks: number
  unaskedBytes: number
  /** Second want-blocks for a block that was already asked for. */
  hedges: number
  /** Wants of peers that did not fit into their ledger. */
  wantsRefused: number
  /** Want-blocks that were taken from a silent peer. */
  silences: number
  /** Wants and presences that messages were too long for, or whose names cannot be checked. */
  passedOver: number
  droppedPeers: number
}

export function noTotals(): Totals {
  return {
    messagesIn: 0, messagesOut: 0, blocksIn: 0, bytesIn: 0, blocksOut: 0, bytesOut: 0, duplicateBlocks: 0,
    duplicateBytes: 0, unaskedBlocks: 0, unaskedBytes: 0, hedges: 0, wantsRefused: 0, silences: 0, passedOver: 0,
    droppedPeers: 0,
  }
}

/** What passed between an exchange and one peer, and what it is known to be capable of. */
export interface PeerTotals {
  /** Blocks that it sent and that were wanted, and their bytes. */
  readonly blocksIn: number
  readonly bytesIn: number
  readonly blocksOut: number
  readonly bytesOut: number
  /** Blocks that it is asked for at the moment. */
  readonly askedBlocks: number
  /** Blocks that it wants of us. */
  readonly wants: number
  /** Bytes that it may be asked for at a time. */
  readonly windowBytes: number
  /** Bytes a second that it delivered of late; 0 while unknown. */
  readonly bytesPerSecond: number
  /** The shortest time from a want to its answer of late; `null` before the first. */
  readonly latency: Nanos | null
}
