import type { Cid, CidKey } from '../../content/index.ts'
import { URGENT_MAX } from '../requester/wants.ts'
import type { Limits } from '../limits.ts'
import type { Presence, WantEntry } from '../message.ts'
import type { Block } from '../message.ts'
import { SendQueue, type QueueEntry } from './send-queue.ts'

/** Blocks at the front of the queue that are compared for the next batch. */
const COMPARED_MAX = 16
/** Blocks at the front of the queue that are checked when the next turn is chosen. */
const FRESH_COMPARED_MAX = 4
/** The most times that the first block of the queue may be skipped. */
const OVERTAKEN_MAX = 8
/** The most bytes that a block takes in a message besides its data. */
const BLOCK_OVERHEAD_BYTES_MAX = 32
/**
 * Blocks of at most this many bytes are sent before longer ones, however often they were sent. The inner nodes of a DAG
 * are short, and readers need them first.
 */
const SHORT_BYTES = 64 << 10
/** A want above this priority is urgent to the peer. */
const URGENT_ABOVE = 2 ** 31 - 1 - URGENT_MAX

/**
 * - `looking`: the store was asked for the block.
 * - `absent`: the block is not here. The peer gets it when it arrives.
 * - `queued`: the block is here and waits for its turn.
 * - `reading`: the block is being read, or was read and goes with the next message.
 */
type State =
  | { readonly kind: 'looking' | 'absent' | 'reading' }
  | { readonly kind: 'queued'; readonly nth: number; readonly length: number }

export interface Wanted {
  readonly cid: Cid
  priority: number
  kind: 'block' | 'have'
  sendDontHave: boolean
  state: State
}

/** The blocks of the next message. */
class Batch {
  /** Blocks that are being read, and their lengths. */
  readonly reading = new Map<CidKey, number>()
  /** Blocks that were read, the CID that the peer used, and the length that was reserved. */
  readonly blocks: { readonly cid: Cid; readonly block: Block; readonly length: number }[] = []
  /** Bytes of both. */
  bytes = 0

  get isIdle(): boolean {
    return this.reading.size === 0 && this.blocks.length === 0
  }

  get isComplete(): boolean {
    return this.reading.size === 0 && this.blocks.length > 0
  }
}

/** The wants of one peer, and the blocks that it gets next. */
export class Account {
  readonly wants = new Map<CidKey, Wanted>()
  readonly batch = new Batch()
  queuedBytes = 0
  /** Its position among the peers that take turns. */
  readonly turnKey: bigint
  /** The number of its turns that went to another peer. */
  passedOver = 0
  /** Whether it got another peer's turn last time, because it was further behind. */
  isFavoured = false
  /** Whether it must get a message without delay. */
  isUrgent = false
  readonly #limits: Limits
  readonly #queue = new SendQueue()
  readonly #presences: Presence[] = []
  /** The number of times that the first block of the queue was skipped. */
  #overtaken = 0

  constructor(limits: Limits, turnKey: bigint) {
    this.#limits = limits
    this.turnKey = turnKey
  }

  /** Adds or changes a want. Returns whether the store must be asked for the block. */
  want({ cid, priority, kind, sendDontHave }: WantEntry): boolean {
    const wanted = this.wants.get(cid.key)
    if (wanted === undefined) {
      this.wants.set(cid.key, { cid, priority, kind, sendDontHave, state: { kind: 'looking' } })
      return true
    }
    if (kind === 'block') wanted.kind = kind
    wanted.sendDontHave ||= sendDontHave
    const before = wanted.priority
    wanted.priority = priority
    switch (wanted.state.kind) {
      case 'queued':
        if (before !== priority) this.#queue.move(before, priority, wanted.state.nth, wanted.cid)
        return false
      case 'absent':
        wanted.state = { kind: 'looking' }
        return true
      case 'looking':
      case 'reading':
        return false
    }
  }

  /** Whether the block waits for its turn. */
  isQueued({ key }: Cid): boolean {
    return this.wants.get(key)?.state.kind === 'queued'
  }

  /** Removes a want. Returns whether there was one. A block that is being read may still be sent. */
  forget({ key }: Cid): boolean {
    const wanted = this.wants.get(key)
    if (wanted === undefined) return false
    this.wants.delete(key)
    if (wanted.state.kind === 'queued') {
      this.#queue.remove(wanted.priority, wanted.state.nth)
      this.queuedBytes -= wanted.state.length
    }
    return true
  }

  queue({ key }: Cid, length: number): void {
    const wanted = this.wants.get(key)
    if (wanted === undefined) return
    wanted.state = { kind: 'queued', nth: this.#queue.push(wanted.priority, wanted.cid), length }
    this.queuedBytes += length
  }

  /** The block is not here. Returns whether the peer gets a DONT_HAVE. */
  markAbsent(cid: Cid): boolean {
    const wanted = this.wants.get(cid.key)
    if (wanted === undefined) return false
    wanted.state = { kind: 'absent' }
    if (wanted.sendDontHave) this.queuePresence(cid, false)
    return wanted.sendDontHave
  }

  /** Queues a presence for the next message. Bounded, for a peer that does not read. */
  queuePresence(cid: Cid, hasBlock: boolean): void {
    if (this.#presences.length >= this.#limits.wantsPerPeerMax * 2) return
    this.#presences.push({ cid, hasBlock })
    this.isUrgent ||= !hasBlock
  }

  takePresences(max: number): Presence[] {
    this.isUrgent = false
    return this.#presences.splice(0, max)
  }

  get hasPresencesLeft(): boolean {
    return this.#presences.length > 0
  }

  /** Whether blocks can be read for the peer. */
  get isReady(): boolean {
    return this.#queue.size > 0 && this.batch.isIdle
  }

  /** Whether one of the next blocks was never sent to any peer, or is short. */
  hasFresh(wasSent: (cid: Cid) => boolean): boolean {
    return this.#queue.first(FRESH_COMPARED_MAX).some(({ cid }) => this.#isShort(cid) || !wasSent(cid))
  }

  /** The length of the block that begins the next batch. */
  nextLength(sent: (cid: Cid) => number): number {
    const place = this.#choose(sent)
    const state = place === null ? undefined : this.wants.get(place.cid.key)?.state
    return state?.kind === 'queued' ? state.length : 0
  }

  /** The block that begins the next batch, if it can wait. `null` if it is urgent or short. */
  nextDeferrable(sent: (cid: Cid) => number): Cid | null {
    const place = this.#choose(sent)
    if (place === null || place.priority > URGENT_ABOVE || this.#isShort(place.cid)) return null
    return place.cid
  }

  /**
   * Begins a batch of at most `bytesMax` bytes, or of one block. Blocks that were sent to the fewest peers come first.
   * A block that was never sent goes alone, because the turn was given for it.
   */
  nextBatch(bytesMax: number, sent: (cid: Cid) => number): Cid[] {
    const cids: Cid[] = []
    let hasFresh = false
    for (;;) {
      const [first] = this.#queue.first(1)
      const place = this.#choose(sent)
      const wanted = place === null ? undefined : this.wants.get(place.cid.key)
      if (place === null || wanted?.state.kind !== 'queued') return cids
      const { length } = wanted.state
      if (cids.length > 0 && this.batch.bytes + length > bytesMax) return cids
      const isLong = !this.#isShort(place.cid)
      const isFresh = sent(place.cid) === 0
      if (hasFresh && !isFresh && isLong) return cids
      hasFresh ||= isFresh && isLong
      this.#overtaken = place.nth === first?.nth ? 0 : this.#overtaken + 1
      wanted.state = { kind: 'reading' }
      this.#queue.remove(place.priority, place.nth)
      this.queuedBytes -= length
      this.batch.bytes += length
      this.batch.reading.set(place.cid.key, length)
      cids.push(place.cid)
    }
  }

  /** The queue entry of the next block. */
  #choose(sent: (cid: Cid) => number): QueueEntry | null {
    const [first] = this.#queue.first(1)
    if (first === undefined) return null
    if (this.#overtaken >= OVERTAKEN_MAX || first.priority > URGENT_ABOVE) return first
    let best = first
    let bestRank = Infinity
    for (const place of this.#queue.first(COMPARED_MAX)) {
      const rank = this.#isShort(place.cid) ? 0 : 1 + sent(place.cid)
      if (rank < bestRank) {
        best = place
        bestRank = rank
      }
    }
    return best
  }

  #isShort({ key }: Cid): boolean {
    const state = this.wants.get(key)?.state
    return !(state?.kind === 'queued' && state.length > SHORT_BYTES)
  }

  /**
   * The store read the block, or could not. Returns the bytes that are no longer reserved. `null` if the block was not
   * being read for this peer.
   */
  read(cid: Cid, block: Block | null): number | null {
    const length = this.batch.reading.get(cid.key)
    if (length === undefined) return null
    this.batch.reading.delete(cid.key)
    // The peer may have cancelled the want meanwhile.
    if (block !== null && this.wants.has(cid.key)) {
      this.batch.blocks.push({ cid, block, length })
      return 0
    }
    if (block === null) this.markAbsent(cid)
    this.batch.bytes -= length
    return length
  }

  /**
   * Takes the blocks of the batch once it is complete: at most `bytesMax` bytes with overhead, or a single block. With
   * the CIDs that the peer used.
   */
  takeBlocks(bytesMax: number): { readonly cid: Cid; readonly block: Block }[] {
    if (!this.batch.isComplete) return []
    let count = 0
    let bytes = 0
    for (const { block } of this.batch.blocks) {
      bytes += block.data.length + BLOCK_OVERHEAD_BYTES_MAX
      if (count > 0 && bytes > bytesMax) break
      count++
    }
    const taken = this.batch.blocks.splice(0, count)
    for (const { length } of taken) this.batch.bytes -= length
    return taken
  }
}
