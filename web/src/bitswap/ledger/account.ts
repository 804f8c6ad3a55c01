import type { Cid, CidKey } from '../../content/index.ts'
import { URGENT_MAX } from '../asking/wants.ts'
import type { ExchangeLimits } from '../limits.ts'
import type { BlockPresence, WantEntry } from '../message.ts'
import type { Block } from '../output.ts'
import { Queue, type Place } from './queue.ts'

/** Blocks at the front of a queue that are compared with one another. */
const COMPARED_MAX = 16
/** Blocks at the front of a queue that are looked at when whose turn it is is found. */
const FRESH_COMPARED_MAX = 4
/** How often the first of a queue may be passed over. */
const OVERTAKEN_MAX = 8
/** What a block takes in a message beside its bytes, at most. */
const BLOCK_BYTES_AROUND = 32
/**
 * Blocks up to here are sent before longer ones, however often they were sent: a DAG's inner nodes are short, and much
 * waits for them.
 */
const SHORT_BYTES = 64 << 10
/** Above this, a want is urgent to who has it. */
const URGENT_ABOVE = 2 ** 31 - 1 - URGENT_MAX

/**
 * - `looking`: the store was asked about it.
 * - `absent`: it is not here; the peer gets it when it comes.
 * - `queued`: it is here, and waits for its turn.
 * - `reading`: it is being read, or was read and is sent with the next message.
 */
type State =
  | { readonly kind: 'looking' | 'absent' | 'reading' }
  | { readonly kind: 'queued'; readonly nth: number; readonly length: number }

export interface Wanted {
  readonly cid: Cid
  priority: number
  type: 'block' | 'have'
  sendDontHave: boolean
  state: State
}

/** Blocks that go with one message. */
class Batch {
  /** What is not here yet. */
  readonly reading = new Map<CidKey, number>()
  /** What is, the name it was wanted by, and the bytes it was taken to have. */
  readonly blocks: { readonly cid: Cid; readonly block: Block; readonly length: number }[] = []
  /** Bytes of both, as far as it is known. */
  bytes = 0

  get isIdle(): boolean {
    return this.reading.size === 0 && this.blocks.length === 0
  }

  get isComplete(): boolean {
    return this.reading.size === 0 && this.blocks.length > 0
  }
}

/** What a peer wants of us, and what it is about to get. */
export class Account {
  readonly wants = new Map<CidKey, Wanted>()
  readonly batch = new Batch()
  queuedBytes = 0
  /** Where it sits among those who take turns. */
  readonly seat: bigint
  /** How often others had a turn that was its own. */
  passedOver = 0
  /** Whether its last turn was another's, since it was further behind. */
  isFavoured = false
  /** Whether something is to be told that the peer waits for. */
  isUrgent = false
  readonly #limits: ExchangeLimits
  readonly #queue = new Queue()
  readonly #presences: BlockPresence[] = []
  /** How often the first of the queue was passed over. */
  #overtaken = 0

  constructor(limits: ExchangeLimits, seat: bigint) {
    this.#limits = limits
    this.seat = seat
  }

  /** Adds a want, or changes one. Whether it has to be found out if the block is here. */
  want({ cid, priority, type, sendDontHave }: WantEntry): boolean {
    const wanted = this.wants.get(cid.key)
    if (wanted === undefined) {
      this.wants.set(cid.key, { cid, priority, type, sendDontHave, state: { kind: 'looking' } })
      return true
    }
    if (type === 'block') wanted.type = type
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

  /** Whether it waits for its turn. */
  isQueued({ key }: Cid): boolean {
    return this.wants.get(key)?.state.kind === 'queued'
  }

  /** Whether it was wanted. What is being read already may still be sent. */
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

  /** The block is not here. Whether the peer is told. */
  isAbsent(cid: Cid): boolean {
    const wanted = this.wants.get(cid.key)
    if (wanted === undefined) return false
    wanted.state = { kind: 'absent' }
    if (wanted.sendDontHave) this.tell(cid, false)
    return wanted.sendDontHave
  }

  /** To be told with the next message. One that does not listen is told no more than it can want. */
  tell(cid: Cid, have: boolean): void {
    if (this.#presences.length >= this.#limits.wantsPerPeerMax * 2) return
    this.#presences.push({ cid, have })
    this.isUrgent ||= !have
  }

  takePresences(max: number): BlockPresence[] {
    this.isUrgent = false
    return this.#presences.splice(0, max)
  }

  get hasPresencesLeft(): boolean {
    return this.#presences.length > 0
  }

  /** Whether blocks can be read for it. */
  get isReady(): boolean {
    return this.#queue.size > 0 && this.batch.isIdle
  }

  /** Whether among the next is a block that was never sent to anybody, or a short one. */
  hasFresh(wasSent: (cid: Cid) => boolean): boolean {
    return this.#queue.first(FRESH_COMPARED_MAX).some(({ cid }) => this.#isShort(cid) || !wasSent(cid))
  }

  /** Bytes of the block with which the next batch begins. */
  nextLength(sent: (cid: Cid) => number): number {
    const place = this.#choose(sent)
    const state = place === null ? undefined : this.wants.get(place.cid.key)?.state
    return state?.kind === 'queued' ? state.length : 0
  }

  /** The block with which the next batch begins, unless much waits for it. */
  nextPatient(sent: (cid: Cid) => number): Cid | null {
    const place = this.#choose(sent)
    if (place === null || place.priority > URGENT_ABOVE || this.#isShort(place.cid)) return null
    return place.cid
  }

  /**
   * Begins a batch of at most so many bytes, or of one block: those first that were sent to others the least often. What
   * nobody was sent yet goes alone: a turn that it was given for is no other's.
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

  /** The place of the next block in the queue. */
  #choose(sent: (cid: Cid) => number): Place | null {
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
   * A block was read, or could not be: bytes that are no longer held for it. `null` when it was not asked for.
   */
  read(cid: Cid, block: Block | null): number | null {
    const length = this.batch.reading.get(cid.key)
    if (length === undefined) return null
    this.batch.reading.delete(cid.key)
    // It may have been taken back in the meantime.
    if (block !== null && this.wants.has(cid.key)) {
      this.batch.blocks.push({ cid, block, length })
      return 0
    }
    if (block === null) this.isAbsent(cid)
    this.batch.bytes -= length
    return length
  }

  /**
   * Blocks of the batch, once it is complete: at most so many bytes with all that is around them, or a single one. With
   * the names they were wanted by.
   */
  takeBlocks(bytesMax: number): { readonly cid: Cid; readonly block: Block }[] {
    if (!this.batch.isComplete) return []
    let count = 0
    let bytes = 0
    for (const { block } of this.batch.blocks) {
      bytes += block.data.length + BLOCK_BYTES_AROUND
      if (count > 0 && bytes > bytesMax) break
      count++
    }
    const taken = this.batch.blocks.splice(0, count)
    for (const { length } of taken) this.batch.bytes -= length
    return taken
  }
}
