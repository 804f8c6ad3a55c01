import { MILLI, rateOf, SECOND, since, type Nanos } from './time.ts'

/** Least length of a round, for the hiccups of a busy machine. */
const ROUND_MIN: Nanos = 20 * MILLI
/** Messages that are sent one after the other at first. */
const MESSAGES_AT_FIRST = 16
/** Messages that are under way later, at least, where the link is fast. */
const MESSAGES_MAX = 6
/** Bytes of a message of several blocks while the link's rate is not known. */
const BATCH_BYTES_AT_FIRST = 128 << 10
/** Least bytes at which a message of several blocks ends. */
const BATCH_BYTES_MIN = 16 << 10
/** Rounds after which twice as much is tried again. */
const ROUNDS_BEFORE_PROBE = 16
/** What twice as much has to gain, in eighths of the rate, to be kept. */
const GAIN = 1
/** The same beyond the usual. */
const GREAT_GAIN = 2
/** When nothing leaves for at least so long, other peers get their chance. */
const STUCK_AFTER: Nanos = 2 * SECOND

/**
 * How many bytes of blocks are under way to all peers together.
 *
 * Whoever sends a block to each of many peers at once delivers all of them late; one after the other, all but the last
 * arrive sooner, and are served on sooner. So no more is under way than fills the uplink. How much that is, is found by
 * trying: twice as much is kept if it makes the bytes leave faster. Beyond the usual, that is tried only where with half
 * they leave more slowly: where it is those who take them that are slow. What stands still altogether waits for its peers:
 * it does not count.
 */
export class Uplink {
  #held = 0
  /** Of all messages so far. */
  #sentBytes = 0
  #window = 0
  /** The best rate found, in bytes a second, and the least window that it was found with. */
  #best = { rate: 0, window: 0 }
  /** The last rate found; 0 before the first. */
  #rate = 0
  #roundsWithoutGain = 0
  /** Whether half is tried, to see whether that makes the bytes leave more slowly. */
  #isHalved = false
  #roundFrom: Nanos = 0
  #roundBytes = 0
  /** Whether something waited because of the window. */
  #isLimiting = false
  #leftAt: Nanos = 0
  /** The longest time of late in which nothing left. */
  #gap: Nanos = 0
  /** The longest message of late. */
  #message = 128 << 10
  /** Beyond, much has to be gained. */
  readonly #usualMax: number

  /** More than `usualMax` bytes are under way only where that makes the bytes leave much faster. */
  constructor(usualMax: number) {
    this.#usualMax = usualMax
  }

  /** Bytes that may be sent now, `reading` of which are spoken for. */
  room(reading: number): number {
    const room = Math.max(0, this.#windowNow - (this.#held + reading))
    this.#isLimiting ||= room === 0
    return room
  }

  /**
   * Most bytes of a message of several blocks: what leaves within a moment, so that on a slow link others are not kept
   * waiting, and what is taken back can still be kept back.
   */
  get batchBytesMax(): number {
    return this.#rate === 0 ? BATCH_BYTES_AT_FIRST : Math.max(BATCH_BYTES_MIN, Math.floor(this.#rate / 4))
  }

  sent(now: Nanos, bytes: number): void {
    if (this.#held === 0) {
      this.#roundFrom = now
      this.#roundBytes = 0
      this.#leftAt = now
    }
    this.#held += bytes
    this.#sentBytes += bytes
    this.#message = Math.max(bytes, Math.floor(this.#message / 8) * 7)
  }

  /** Bytes left, or are given up with their peer. */
  left(now: Nanos, bytes: number): void {
    this.#held -= bytes
    this.#gap = Math.max(since(now, this.#leftAt), Math.floor(this.#gap / 16) * 15)
    this.#leftAt = now
    this.#roundBytes += bytes
    const took = since(now, this.#roundFrom)
    const window = this.#windowNow
    // What was under way before half is tried leaves first.
    const round = this.#isHalved ? this.#best.window : window
    if (this.#roundBytes < round || took < ROUND_MIN) return
    const rate = rateOf(this.#roundBytes, took)
    this.#rate = rate
    this.#roundFrom = now
    this.#roundBytes = 0
    if (!this.#isLimiting) return
    this.#isLimiting = false
    if (this.#isHalved) {
      this.#isHalved = false
      const isSlower = rate < Math.floor(this.#best.rate / 8) * 7
      if (!isSlower && this.#best.window > this.#usualMax) this.#best = { rate, window }
      this.#window = isSlower ? this.#best.window * 2 : this.#best.window
      return
    }
    const gain = window < this.#usualMax ? GAIN : GREAT_GAIN
    if (rate > this.#best.rate + Math.floor(this.#best.rate / 8) * gain) {
      this.#best = { rate, window }
      this.#window = this.#doubled(window)
      this.#roundsWithoutGain = 0
      return
    }
    this.#window = this.#best.window
    this.#roundsWithoutGain++
    if (this.#roundsWithoutGain < ROUNDS_BEFORE_PROBE) return
    this.#roundsWithoutGain = 0
    this.#best = { rate, window: this.#windowNow }
    this.#isHalved = this.#best.window >= this.#usualMax
    this.#window = this.#isHalved ? Math.floor(this.#best.window / 2) : this.#doubled(this.#best.window)
  }

  /** When to look whether anything leaves at all. */
  nextWake(): Nanos | null {
    if (!this.#isLimiting || this.#held === 0) return null
    return this.#leftAt + Math.max(STUCK_AFTER, this.#gap * 4)
  }

  /** Whether nothing leaves any more. */
  isStuck(now: Nanos): boolean {
    const wake = this.nextWake()
    return wake !== null && wake <= now
  }

  /** What is under way now does not count any more. */
  giveUp(): void {
    this.#held = 0
    this.#isLimiting = false
  }

  /** Twice as much, but no more than the usual. */
  #doubled(window: number): number {
    return Math.max(window, Math.min(window * 2, this.#usualMax))
  }

  /**
   * One peer after the other at first, when each block is awaited by many; later more of them: some take what we send
   * slowly, for what others send them, and the link is not to wait for them. No more than leaves within a moment, or it
   * would be promised too early.
   */
  get #least(): number {
    const two = this.#message * 2
    if (this.#sentBytes <= this.#message * MESSAGES_AT_FIRST) return two
    const moment = Math.floor(this.#best.rate / 10) * 7
    return Math.max(two, Math.min(moment, this.#message * MESSAGES_MAX))
  }

  get #windowNow(): number {
    return this.#isHalved ? this.#window : Math.max(this.#window, this.#least)
  }
}
