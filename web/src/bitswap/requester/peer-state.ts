import type { Cid } from '../../content/index.ts'
import type { ExchangeLimits } from '../limits.ts'
import { earliest, since, transferTime, type Nanos } from '../time.ts'
import { Bits, setBits } from './bits.ts'
import { RecentCids } from './recent-cids.ts'
import { Throughput } from './throughput.ts'

/**
 * The requests that a peer may get before it announced a block.
 *
 * - `none`: nothing, because it sent DONT_HAVE before.
 * - `one`: one block, because nothing is known of it.
 * - `full`: as much as its window allows, because it is a provider.
 */
export type ProviderHint = 'none' | 'one' | 'full'

/**
 * The kind of data that arrived from a peer.
 *
 * - `part`: part of a message. Only messages with blocks are long enough to arrive in parts.
 * - `blocks`: a message with blocks, or the rest of it.
 * - `other`: a message without blocks.
 */
export type Received = 'part' | 'blocks' | 'other'

/** A block that is requested from a peer. */
export interface Request {
  readonly at: Nanos
  /** Whether the want-block was sent to the peer. */
  isSent: boolean
  /** The length of the block, estimated if it is unknown. */
  readonly bytes: number
  /** Bytes that the peer had delivered when the block was requested. */
  readonly deliveredBefore: number
  /** Bytes requested from the peer before this block and not delivered at that time. */
  readonly bytesAhead: number
  /** Whether the bytes count towards the total requested from all peers. */
  isCounted: boolean
}

/** The number of cancelled requests of one peer that are remembered. */
const LATE_MAX = 256
/** Timeouts in a row of an unproven peer before each further timeout takes twice as long. */
const UNPROVEN_TIMEOUTS = 2
/** Blocks to request from one peer at least. */
const BLOCKS_PER_PEER_MIN = 2

/** The requester's knowledge of one peer. */
export class PeerState {
  readonly has = new Bits()
  readonly lacks = new Bits()
  /** Wants that the peer remembers as want-haves of ours. */
  readonly sentWantHaves = new Bits()
  readonly requested = new Map<number, Request>()
  requestedBytes = 0
  providerHint: ProviderHint
  /** Cancels for the next message. */
  pendingCancels: Cid[] = []
  /** Wants among those cancels. They may be sent again only in a later message. */
  deferred = new Bits()
  /** Want-blocks for the next message. */
  pendingRequests: number[] = []
  /** Whether one of these must be sent without delay. */
  isUrgent = false
  readonly throughput: Throughput
  /** When the last message or part arrived from the peer, or the first request was added while there was none. */
  receivedAt: Nanos
  /** After a timeout: when the peer gets requests again. `null` while it has not timed out. */
  timedOutUntil: Nanos | null = null
  timeouts = 0
  /** The longest recent time between two arrivals while something was requested. */
  longestGap: Nanos = 0
  /** Whether a request was repeated since anything arrived. */
  wasRetried = false
  /** `Requester.messageParts` when anything arrived last from this peer. */
  partsAtReceive = 0
  /** Whether part of a message has arrived, and the rest has not. */
  isMidMessage = false
  /** When block data arrived last. */
  blockDataAt: Nanos
  /** The number of timeouts attributed to our own link since anything arrived. */
  excusedTimeouts = 0
  /** `Requester.messageParts` at the last of these, or when anything arrived. */
  partsAtExcuse = 0
  /** When the peer was last considered for requests of other peers. */
  takeOverCheckedAt: Nanos | null = null
  /** Since when the peer has been silent although blocks are requested from it. */
  stallingSince: Nanos | null = null
  /** Cancelled requests that the peer may still answer. */
  readonly lateBlocks = new RecentCids(LATE_MAX)
  /** Want-haves that were cancelled. A short block may still arrive as the answer. */
  cancelledWantHaves = 0
  /** Whether a block was ever requested from the peer. */
  wasEverRequested = false
  unrequestedBlocks = 0
  /** Blocks that this requester never wanted. */
  unsolicitedBlocks = 0
  usefulBlocks = 0
  /** When the peer last delivered a wanted block. */
  deliveredAt: Nanos
  bytesIn = 0
  readonly #limits: ExchangeLimits

  constructor(now: Nanos, limits: ExchangeLimits, isProvider: boolean) {
    this.#limits = limits
    this.providerHint = isProvider ? 'full' : 'one'
    this.throughput = new Throughput(limits, BLOCKS_PER_PEER_MIN)
    this.receivedAt = now
    this.blockDataAt = now
    this.deliveredAt = now
  }

  /** Something arrived from the peer. `messageParts`: the number of parts that arrived from all peers. */
  noteReceived(now: Nanos, what: Received, messageParts: number): void {
    // An answer to a repeated request does not show how long the peer takes by itself.
    if (this.requested.size > 0) {
      if (!this.wasRetried) this.longestGap = Math.max(since(now, this.receivedAt), Math.floor(this.longestGap / 16) * 15)
      this.wasRetried = false
    }
    this.isMidMessage = what === 'part'
    if (what !== 'other') this.blockDataAt = now
    this.partsAtReceive = messageParts
    this.excusedTimeouts = 0
    this.partsAtExcuse = messageParts
    this.receivedAt = now
    this.timedOutUntil = null
    this.stallingSince = this.requested.size > 0 ? now : null
  }

  request(now: Nanos, at: number, bytes: number): Request {
    if (this.requested.size === 0) {
      this.receivedAt = now
      this.throughput.startSample(now)
    }
    this.wasEverRequested = true
    this.stallingSince ??= now
    const request = {
      at: now,
      isSent: false,
      bytes,
      deliveredBefore: this.throughput.deliveredBytes,
      bytesAhead: this.requestedBytes,
      isCounted: true,
    }
    if (!this.requested.has(at)) this.requestedBytes += bytes
    this.requested.set(at, request)
    this.pendingRequests.push(at)
    this.isUrgent = true
    return request
  }

  removeRequest(at: number): Request | null {
    const request = this.requested.get(at)
    if (request === undefined) return null
    this.requested.delete(at)
    this.requestedBytes -= request.bytes
    if (this.requested.size === 0) this.stallingSince = null
    return request
  }

  /** When to check next whether the peer has timed out or stalled. */
  nextTimeoutAt(): Nanos | null {
    const stalled = this.stallingSince === null ? null : this.stallingSince + this.#limits.stalledAfter
    return earliest(this.timedOutUntil ?? this.timeoutAt(), stalled)
  }

  /** Sends the want-block again. Returns whether it had been sent before. */
  retry(at: number): boolean {
    const request = this.requested.get(at)
    if (request?.isSent !== true) return false
    request.isSent = false
    this.pendingRequests.push(at)
    this.isUrgent = true
    this.wasRetried = true
    // Both answers may arrive.
    this.cancelledWantHaves++
    return true
  }

  /**
   * Forgets the want-haves that the peer never answered, so that they are sent again. Returns whether there were any.
   */
  forgetUnansweredWantHaves(): boolean {
    const { sentWantHaves, lacks } = this
    const unanswered = [...setBits(sentWantHaves.words, (at) => sentWantHaves.half(at) & ~lacks.half(at))]
    for (const at of unanswered) sentWantHaves.remove(at)
    // They are sent again, and both answers may arrive.
    this.cancelledWantHaves += unanswered.length
    return unanswered.length > 0
  }

  /** Whether the peer announced the block, or is a provider that has not denied it. */
  mayHave(at: number): boolean {
    return this.has.has(at) || (this.providerHint === 'full' && !this.lacks.has(at))
  }

  /** Whether the peer can take another request and is certain to remember it. */
  get hasRoom(): boolean {
    if (this.isUnproven) return this.requested.size === 0
    const remembered = this.requested.size + this.sentWantHaves.size
    return this.requested.size < 2 || (remembered < this.#limits.sentWantsPerPeerMax && this.requestedBytes < this.throughput.windowBytes)
  }

  /**
   * Whether the peer timed out and never delivered anything. Other peers are preferred, and may take over its requests.
   */
  get neverAnswered(): boolean {
    return this.isUnproven && this.timeouts > 0
  }

  /** Whether the peer never delivered a wanted block. Its announcements are only claims. */
  get isUnproven(): boolean {
    return this.usefulBlocks === 0
  }

  /**
   * When the peer times out if nothing arrives. `null` if nothing is requested or it has timed out. The usual time to
   * answer is unknown until the first answer, so a new peer gets ten times the response timeout.
   */
  timeoutAt(): Nanos | null {
    if (this.requested.size === 0 || this.timedOutUntil !== null) return null
    const { responseTimeout } = this.#limits
    const usual = this.throughput.usualLatency === null ? responseTimeout * 10 : this.throughput.usualLatency * 4
    // A single request to an unproven peer is repeated soon.
    const doubled = this.isUnproven ? Math.max(0, this.timeouts - UNPROVEN_TIMEOUTS) : this.timeouts
    return this.receivedAt + Math.max(responseTimeout, usual, this.longestGap * 3) * 2 ** Math.min(doubled, 8)
  }

  /** The time until the requested blocks and `more` bytes arrive. */
  expectedTime(more: number): Nanos {
    const base = this.throughput.minLatency ?? 0
    return this.throughput.rate === 0 ? base : transferTime(this.requestedBytes + more, this.throughput.rate) + base
  }
}
