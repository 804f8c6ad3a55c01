import type { Cid } from '../../content/index.ts'
import { BitSet, ones } from '../bit-set.ts'
import type { Limits } from '../limits.ts'
import { earliest, transferTime, type Nanos } from '../time.ts'
import { DeliveryRate } from './request-window.ts'
import { PeerRequests, type BlockRequest } from './peer-requests.ts'
import { RecentCids } from './recent-cids.ts'
import { Silence } from './silence.ts'

/**
 * The requests that a peer may get before it announced a block.
 *
 * - `unlikely`: nothing, because it sent DONT_HAVE before.
 * - `unknown`: one block, because nothing is known of it.
 * - `likely`: as much as its window allows, because it is a provider.
 */
export type ProviderHint = 'unlikely' | 'unknown' | 'likely'

/** The number of cancelled requests of one peer that are remembered. */
const LATE_BLOCKS_MAX = 256
/** Timeouts in a row of an unproven peer before each further timeout takes twice as long. */
const UNPROVEN_TIMEOUTS = 2
/** Blocks to request from one peer at least. */
const BLOCKS_PER_PEER_MIN = 2

/** The blocks that a peer has or lacks, as it announced. */
class PeerBlocks {
  readonly has = new BitSet()
  readonly lacks = new BitSet()
  providerHint: ProviderHint

  constructor(isLikely: boolean) {
    this.providerHint = isLikely ? 'likely' : 'unknown'
  }
}

/** Wants and cancels for the next messages to a peer, and what it knows already. */
class WantQueue {
  /** Wants that the peer remembers as want-haves of ours. */
  readonly sentWantHaves = new BitSet()
  cancels: Cid[] = []
  /** Wants among those cancels. They may be sent again only in a later message. */
  justCancelled = new BitSet()
  /** Want-blocks. */
  requests: number[] = []
  /** Whether one of these must be sent without delay. */
  isUrgent = false
}

/** Counts of the blocks that a peer sent. */
class BlockCounts {
  /** Cancelled requests that the peer may still answer. */
  readonly late = new RecentCids(LATE_BLOCKS_MAX)
  /** Want-haves that were cancelled. A short block may still arrive as the answer. */
  cancelledWantHaves = 0
  /** Whether a block was ever requested from the peer. */
  wasRequested = false
  unrequested = 0
  /** Blocks that this requester never wanted. */
  unsolicited = 0
  useful = 0
  usefulBytes = 0
  /** When the peer last delivered a wanted block. */
  usefulAt: Nanos

  constructor(now: Nanos) {
    this.usefulAt = now
  }
}

/** The requester's knowledge of one peer. */
export class PeerState {
  readonly blocks: PeerBlocks
  readonly queue = new WantQueue()
  readonly requests = new PeerRequests()
  readonly delivery: DeliveryRate
  readonly silence: Silence
  readonly counts: BlockCounts
  /** Whether messages reach the peer without the relay. */
  isDirect = false
  /** When the peer was last considered for requests of other peers. */
  takeOverCheckedAt: Nanos | null = null
  readonly #limits: Limits

  constructor(now: Nanos, limits: Limits, isProvider: boolean) {
    this.#limits = limits
    this.blocks = new PeerBlocks(isProvider)
    this.delivery = new DeliveryRate(limits, BLOCKS_PER_PEER_MIN)
    this.silence = new Silence(now)
    this.counts = new BlockCounts(now)
  }

  request(now: Nanos, at: number, bytes: number): BlockRequest {
    const isFirst = this.requests.size === 0
    this.silence.noteRequest(now, isFirst)
    if (isFirst) this.delivery.startSample(now)
    this.counts.wasRequested = true
    this.queue.requests.push(at)
    this.queue.isUrgent = true
    return this.requests.insert(now, at, bytes, this.delivery)
  }

  removeRequest(at: number): BlockRequest | null {
    const request = this.requests.remove(at)
    if (this.requests.size === 0) this.silence.unansweredSince = null
    return request
  }

  /** When to check next whether the peer has timed out or stalled. */
  nextTimeoutAt(): Nanos | null {
    const stalled = this.silence.unansweredSince === null ? null : this.silence.unansweredSince + this.#limits.stalledAfter
    return earliest(this.silence.unresponsiveUntil ?? this.timeoutAt(), stalled)
  }

  /** Sends the want-block again. Returns whether it had been sent before. */
  repeat(at: number): boolean {
    const request = this.requests.get(at)
    if (request?.isSent !== true) return false
    request.isSent = false
    request.isRepeated = true
    this.queue.requests.push(at)
    this.queue.isUrgent = true
    // Both answers may arrive.
    this.counts.cancelledWantHaves++
    return true
  }

  /**
   * Forgets the want-haves that the peer never answered, so that they are sent again. Returns whether there were any.
   */
  forgetUnansweredWantHaves(): boolean {
    const { sentWantHaves } = this.queue
    const { lacks } = this.blocks
    const unanswered = [...ones(sentWantHaves.words, (at) => sentWantHaves.half(at) & ~lacks.half(at))]
    for (const at of unanswered) sentWantHaves.remove(at)
    // They are sent again, and both answers may arrive.
    this.counts.cancelledWantHaves += unanswered.length
    return unanswered.length > 0
  }

  /** Whether the peer announced the block, or is a provider that has not denied it. */
  mayHave(at: number): boolean {
    return this.blocks.has.has(at) || (this.blocks.providerHint === 'likely' && !this.blocks.lacks.has(at))
  }

  /** Whether the peer can take another request and is certain to remember it. */
  get hasRoom(): boolean {
    if (this.isUnproven) return this.requests.size === 0
    const remembered = this.requests.size + this.queue.sentWantHaves.size
    return this.requests.size < 2 || (remembered < this.#limits.sentWantsPerPeerMax && this.requests.bytes < this.delivery.windowBytes)
  }

  /**
   * Whether the peer timed out and never delivered anything. Other peers are preferred, and may take over its requests.
   */
  get neverAnswered(): boolean {
    return this.isUnproven && this.silence.timeouts > 0
  }

  /** Whether the peer never delivered a wanted block. Its announcements are only claims. */
  get isUnproven(): boolean {
    return this.counts.useful === 0
  }

  /**
   * When the peer times out if nothing arrives. `null` if nothing is requested or it has timed out. The usual time to
   * answer is unknown until the first answer, so a new peer gets more time.
   */
  timeoutAt(): Nanos | null {
    if (this.requests.size === 0 || this.silence.isUnresponsive) return null
    const { responseTimeout, firstResponseTimeout } = this.#limits
    const usual = this.delivery.usualLatency === null ? firstResponseTimeout : this.delivery.usualLatency * 4
    // A single request to an unproven peer is repeated soon.
    return this.silence.timeoutAt(responseTimeout, usual, this.isUnproven ? UNPROVEN_TIMEOUTS : 0)
  }

  /** The time until the requested blocks and `more` bytes arrive. */
  timeFor(more: number): Nanos {
    const base = this.delivery.baseLatency ?? 0
    return this.delivery.rate === 0 ? base : transferTime(this.requests.bytes + more, this.delivery.rate) + base
  }
}
