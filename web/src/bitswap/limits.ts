import { MILLI, SECOND, type Nanos } from './time.ts'

/** What an exchange may take, and how patient it is. */
export interface ExchangeLimits {
  /**
   * Wants that are remembered of one peer. Newer ones are refused with DONT_HAVE where they ask for an answer, and passed
   * over where they do not.
   */
  readonly wantsPerPeerMax: number
  /** Wants that one peer is told of at a time; the others wait until some of these are answered. */
  readonly asksPerPeerMax: number
  /**
   * Bytes of blocks being read, or read and not yet sent, for all peers together, and for those who have left meanwhile. One
   * block is always allowed. As much is under way to all of them, usually.
   */
  readonly readingBytesMax: number
  /** Bytes of a message with blocks after which it is sent; a longer block travels alone. */
  readonly messageBytesMax: number
  /** A block this long or shorter is sent at once to who asks whether we have it. */
  readonly giftBytesMax: number
  /** Least and most bytes that one peer is asked for at a time. One block is always allowed. */
  readonly windowBytesMin: number
  readonly windowBytesMax: number
  /**
   * Most bytes that all peers together are asked for at a time. One block is always allowed. They may all answer at once,
   * and what has begun to arrive is in memory.
   */
  readonly askedBytesMax: number
  /** What a block is taken to weigh while its length is unknown. */
  readonly blockBytesGuess: number
  /** Part of the wanted blocks, in thousandths, that may be asked for twice in the tail. One is always allowed. */
  readonly hedgesPerMille: number
  /** After a message, how long what is not urgent waits for more of its kind. */
  readonly gossipPause: Nanos
  /** Complete silence of an asked peer after which another is asked as well; longer where answers take longer. */
  readonly patience: Nanos
  /** Complete silence of a peer that claims to have blocks, and was asked for them, after which it is dropped. */
  readonly stalledAfter: Nanos
  /** Blocks that a peer may send and nobody asked it for, beyond as many as were useful. */
  readonly unaskedMax: number
  /** Blocks of names that nobody was ever asked for that a peer may send once it was asked for others. */
  readonly liesMax: number
  /** Wait before providers are looked for again; doubled each time, up to the next. */
  readonly searchInterval: Nanos
  readonly searchIntervalMax: Nanos
}

/** As the Rust core has them. */
export const defaultExchangeLimits: ExchangeLimits = {
  wantsPerPeerMax: 1024,
  asksPerPeerMax: 960,
  readingBytesMax: 6 << 20,
  messageBytesMax: 1 << 20,
  giftBytesMax: 1024,
  windowBytesMin: 512 << 10,
  windowBytesMax: 32 << 20,
  askedBytesMax: 16 << 20,
  blockBytesGuess: 256 << 10,
  hedgesPerMille: 10,
  gossipPause: 20 * MILLI,
  patience: SECOND,
  stalledAfter: 600 * SECOND,
  unaskedMax: 16,
  liesMax: 0,
  searchInterval: SECOND,
  searchIntervalMax: 60 * SECOND,
}

/**
 * Wants that a peer may be told of as questions while it is asked for so many blocks. A part is left for blocks, or
 * questions without an answer would leave no room to ask for any.
 */
export function toldMax({ asksPerPeerMax: max }: ExchangeLimits, asked: number): number {
  return Math.min(max - Math.floor(max / 4), Math.max(0, max - asked))
}
