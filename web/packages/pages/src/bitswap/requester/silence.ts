import { SECOND, since, type Nanos } from '../time.ts'

/**
 * The kind of data that arrived from a peer.
 *
 * - `part`: part of a message. Only messages with blocks are long enough to arrive in parts.
 * - `blocks`: a message with blocks, or the rest of it.
 * - `no-blocks`: a message without blocks.
 */
export type ReceivedKind = 'part' | 'blocks' | 'no-blocks'

/** Message parts that every other peer may send before a peer that sends nothing times out. */
const PARTS_PER_TURN = 4
/** The number of timeouts of a peer that are attributed to our own link. */
const EXCUSES_MAX = 16
/** The longest time during which a peer gets no requests after a timeout. */
const UNRESPONSIVE_MAX: Nanos = 30 * SECOND
/** How often a wait doubles at most. */
const DOUBLINGS_MAX = 8

/** The silence of one peer, and its timeouts. */
export class Silence {
  /** When the last message or part arrived from the peer, or the first request was added while there was none. */
  receivedAt: Nanos
  /** After a timeout: when the peer gets requests again. `null` while it has not timed out. */
  unresponsiveUntil: Nanos | null = null
  /** Timeouts in a row. A useful block resets them. */
  timeouts = 0
  /** The longest recent time between two arrivals while something was requested. */
  longestGap: Nanos = 0
  /** Whether a request was repeated since anything arrived. */
  wasRetried = false
  /** `Requester.partsReceived` when anything arrived last from this peer. */
  #partsAtReceipt = 0
  /** Whether part of a message has arrived, and the rest has not. */
  isSending = false
  /** When block data arrived last. */
  partAt: Nanos
  /** The number of timeouts attributed to our own link since anything arrived. */
  #excuses = 0
  /** `Requester.partsReceived` at the last of these, or when anything arrived. */
  #partsAtExcuse = 0
  /** Since when the peer has been silent although blocks are requested from it. */
  unansweredSince: Nanos | null = null

  constructor(now: Nanos) {
    this.receivedAt = now
    this.partAt = now
  }

  get isUnresponsive(): boolean {
    return this.unresponsiveUntil !== null
  }

  /** Something arrived from the peer. `parts`: the number of parts that arrived from all peers. */
  noteReceived(now: Nanos, kind: ReceivedKind, hasRequests: boolean, parts: number): void {
    // An answer to a repeated request does not show how long the peer takes by itself.
    if (hasRequests) {
      if (!this.wasRetried) this.longestGap = Math.max(since(now, this.receivedAt), Math.floor(this.longestGap / 16) * 15)
      this.wasRetried = false
    }
    this.isSending = kind === 'part'
    if (kind !== 'no-blocks') this.partAt = now
    this.#partsAtReceipt = parts
    this.#excuses = 0
    this.#partsAtExcuse = parts
    this.receivedAt = now
    this.unresponsiveUntil = null
    this.unansweredSince = hasRequests ? now : null
  }

  noteRequest(now: Nanos, isFirst: boolean): void {
    if (isFirst) this.receivedAt = now
    this.unansweredSince ??= now
  }

  /**
   * If our own link is slow, all peers share it. A peer is not silent while the others got few turns. If nothing arrives
   * from any peer, it is. Returns whether its silence is excused.
   */
  excuse(now: Nanos, parts: number, requestedPeers: number): boolean {
    const isFew = parts - this.#partsAtReceipt < PARTS_PER_TURN * requestedPeers
    const isExcused = parts > this.#partsAtExcuse && isFew && this.#excuses < EXCUSES_MAX
    if (isExcused) {
      this.#excuses++
      this.#partsAtExcuse = parts
      this.receivedAt = now
    }
    return isExcused
  }

  /** The peer timed out. Each time in a row doubles the time until the next. */
  timeOut(now: Nanos, responseTimeout: Nanos): void {
    const wait = responseTimeout * 2 ** Math.min(this.timeouts, DOUBLINGS_MAX)
    this.timeouts++
    this.unresponsiveUntil = now + Math.min(wait, UNRESPONSIVE_MAX)
  }

  /** When a peer times out whose answers take `usual`. The first `freeTimeouts` in a row do not double the wait. */
  timeoutAt(responseTimeout: Nanos, usual: Nanos, freeTimeouts: number): Nanos {
    const doublings = Math.min(Math.max(0, this.timeouts - freeTimeouts), DOUBLINGS_MAX)
    return this.receivedAt + Math.max(responseTimeout, usual, this.longestGap * 3) * 2 ** doublings
  }
}
