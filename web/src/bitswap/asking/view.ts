import type { Cid } from '../../content/index.ts'
import type { ExchangeLimits } from '../limits.ts'
import { earliest, since, timeOf, type Nanos } from '../time.ts'
import { Bits, ones } from './bits.ts'
import { History } from './history.ts'
import { Pace } from './pace.ts'

/**
 * What a peer may be asked for before it said that it has anything.
 *
 * - `none`: nothing, since it said DONT_HAVE before.
 * - `one`: one block, since nothing is known of it.
 * - `full`: as much as its window allows, since it is said to be a provider.
 */
export type Hope = 'none' | 'one' | 'full'

/**
 * What came of a peer.
 *
 * - `part`: part of a message. Only those with blocks are long enough to come in parts.
 * - `blocks`: a message with blocks, or the rest of it.
 * - `words`: a message without.
 */
export type Heard = 'part' | 'blocks' | 'words'

/** A block that a peer is asked for. */
export interface Ask {
  readonly at: Nanos
  /** Whether it was told. */
  isSpoken: boolean
  /** Bytes that it was taken to weigh. */
  readonly bytes: number
  /** What the peer had delivered by then. */
  readonly delivered: number
  /** What it was asked for by then and had not delivered. */
  readonly ahead: number
  /** Whether its bytes are among those that all peers together are asked for. */
  counts: boolean
}

/** Blocks of a peer that are remembered though they are not asked of it any more. */
const LATE_MAX = 256
/** Silences in a row of who never sent a block before we wait longer each time. */
const NEWCOMER_SILENCES = 2
/** Blocks that one peer is asked for at least. */
const BLOCKS_ASKED_OF_ONE = 2

/** A peer as one who wants blocks sees it. */
export class View {
  readonly has = new Bits()
  readonly lacks = new Bits()
  /** Wants that it remembers of us as want-haves. */
  readonly told = new Bits()
  readonly asked = new Map<number, Ask>()
  askedBytes = 0
  hope: Hope
  /** To be told next: what is not wanted any more. */
  cancels: Cid[] = []
  /** Wants among those just taken back, which may be told anew in a later message only. */
  heldBack = new Bits()
  /** To be told next. */
  newAsks: number[] = []
  /** Whether something of that cannot wait. */
  isUrgent = false
  readonly pace: Pace
  /** When anything of it came last, or it was asked for something after it owed us nothing. */
  heardAt: Nanos
  /** While it is silent: when it is asked again. */
  silentUntil: Nanos | null = null
  silences = 0
  /** The longest time of late between two things that came of it while it owed us something. */
  gap: Nanos = 0
  /** Whether it was asked again since anything of it came. */
  wasAskedAgain = false
  /** `Asking.pieces` when anything of it came last. */
  heardPieces = 0
  /** Whether part of a message of it came, and the rest did not yet. */
  isSending = false
  /** When anything of a block came last. */
  sentAt: Nanos
  /** How often its silence was put down to our own link since. */
  excused = 0
  /** `Asking.pieces` when that was done last, or anything of it came. */
  excusedPieces = 0
  /** When it last looked for what it could take over from others. */
  lookedAroundAt: Nanos | null = null
  /** Since when it has been silent while it owes us blocks. */
  owesSince: Nanos | null = null
  /** Blocks that it was asked for and may still send, though that was taken back. */
  readonly late = new History(LATE_MAX)
  /** Questions that were taken back. A short block may be the answer. */
  questionsTakenBack = 0
  /** Whether it was ever asked for a block. */
  wasAsked = false
  unasked = 0
  /** Blocks of names that nobody here ever asked for. */
  strange = 0
  useful = 0
  /** When it last sent a block of use. */
  deliveredAt: Nanos
  bytesIn = 0
  readonly #limits: ExchangeLimits

  constructor(now: Nanos, limits: ExchangeLimits, isProvider: boolean) {
    this.#limits = limits
    this.hope = isProvider ? 'full' : 'one'
    this.pace = new Pace(limits, BLOCKS_ASKED_OF_ONE)
    this.heardAt = now
    this.sentAt = now
    this.deliveredAt = now
  }

  /** Anything of it came. */
  heard(now: Nanos, what: Heard, pieces: number): void {
    // What came because it was asked again says nothing of how long it takes by itself.
    if (this.asked.size > 0) {
      if (!this.wasAskedAgain) this.gap = Math.max(since(now, this.heardAt), Math.floor(this.gap / 16) * 15)
      this.wasAskedAgain = false
    }
    this.isSending = what === 'part'
    if (what !== 'words') this.sentAt = now
    this.heardPieces = pieces
    this.excused = 0
    this.excusedPieces = pieces
    this.heardAt = now
    this.silentUntil = null
    this.owesSince = this.asked.size > 0 ? now : null
  }

  ask(now: Nanos, at: number, bytes: number): Ask {
    if (this.asked.size === 0) {
      this.heardAt = now
      this.pace.begin(now)
    }
    this.wasAsked = true
    this.owesSince ??= now
    const ask = {
      at: now, isSpoken: false, bytes, delivered: this.pace.delivered, ahead: this.askedBytes, counts: true,
    }
    if (!this.asked.has(at)) this.askedBytes += bytes
    this.asked.set(at, ask)
    this.newAsks.push(at)
    this.isUrgent = true
    return ask
  }

  unask(at: number): Ask | null {
    const ask = this.asked.get(at)
    if (ask === undefined) return null
    this.asked.delete(at)
    this.askedBytes -= ask.bytes
    if (this.asked.size === 0) this.owesSince = null
    return ask
  }

  /** When its silence is to be looked at next. */
  silenceAt(): Nanos | null {
    const stalled = this.owesSince === null ? null : this.owesSince + this.#limits.stalledAfter
    return earliest(this.silentUntil ?? this.silentAt(), stalled)
  }

  /** To be told anew of what it is asked for; whether it was told before. */
  askAgain(at: number): boolean {
    const ask = this.asked.get(at)
    if (ask?.isSpoken !== true) return false
    ask.isSpoken = false
    this.newAsks.push(at)
    this.isUrgent = true
    this.wasAskedAgain = true
    // Both answers may come.
    this.questionsTakenBack++
    return true
  }

  /** Forgets that it was told of wants that it never answered; whether there are any. */
  forgetUnanswered(): boolean {
    const { told, lacks } = this
    const unanswered = [...ones(told.words, (at) => told.half(at) & ~lacks.half(at))]
    for (const at of unanswered) told.remove(at)
    // It is asked anew, and both answers may come.
    this.questionsTakenBack += unanswered.length
    return unanswered.length > 0
  }

  /** Whether it has a block, by its own word or by another's. */
  mayHave(at: number): boolean {
    return this.has.has(at) || (this.hope === 'full' && !this.lacks.has(at))
  }

  /** Whether it may be asked for more, and is sure to remember that. */
  get hasRoom(): boolean {
    if (this.isNewcomer) return this.asked.size === 0
    const remembered = this.asked.size + this.told.size
    return this.asked.size < 2 || (remembered < this.#limits.asksPerPeerMax && this.askedBytes < this.pace.window)
  }

  /**
   * Whether it was asked, and was silent, and never sent anything: others are asked first, and may take over what it was
   * asked for.
   */
  get isIdler(): boolean {
    return this.isNewcomer && this.silences > 0
  }

  /** Whether it never sent a block of use: what it says of itself is only a claim. */
  get isNewcomer(): boolean {
    return this.useful === 0
  }

  /**
   * When it will be held to be silent, if nothing of it comes. Of one that never answered it is not known how long its
   * answers take.
   */
  silentAt(): Nanos | null {
    if (this.asked.size === 0 || this.silentUntil !== null) return null
    const { patience } = this.#limits
    const usual = this.pace.usual === null ? patience * 10 : this.pace.usual * 4
    // A single question is soon asked again.
    const doubled = this.isNewcomer ? Math.max(0, this.silences - NEWCOMER_SILENCES) : this.silences
    return this.heardAt + Math.max(patience, usual, this.gap * 3) * 2 ** Math.min(doubled, 8)
  }

  /** How long what it is asked for and `more` will take to come. */
  takes(more: number): Nanos {
    const base = this.pace.base ?? 0
    return this.pace.rate === 0 ? base : timeOf(this.askedBytes + more, this.pace.rate) + base
  }
}
