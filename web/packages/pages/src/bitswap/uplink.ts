import { MILLI, rateOf, SECOND, since, type Nanos } from './time.ts'

/** The shortest round. Shorter ones would measure the scheduling of a busy machine. */
const ROUND_MIN: Nanos = 20 * MILLI
/** Messages at the start that are sent one after the other. */
const MESSAGES_AT_FIRST = 16
/** On a fast link, messages in flight later, at least. */
const MESSAGES_MAX = 6
/** The length of a message of several blocks while the link's rate is unknown. */
const BATCH_BYTES_AT_FIRST = 128 << 10
/** The least length at which a message of several blocks ends. */
const BATCH_BYTES_MIN = 16 << 10
/** Rounds without a gain before a window of twice the size is tried again. */
const ROUNDS_BEFORE_PROBE = 16
/** The gain that twice the window must bring, in eighths of the rate. */
const GAIN = 1
/** The gain above the usual maximum. */
const GREAT_GAIN = 2
/** If nothing leaves for this long, other peers get their turn. */
const STUCK_AFTER: Nanos = 2 * SECOND

/**
 * Limits how many bytes of blocks are in flight to all peers together.
 *
 * If a peer sends one block to each of many peers at once, all of these blocks arrive late. If it sends them one after
 * the other, all but the last arrive sooner, and can be served to others sooner. So the window is just large enough to
 * fill the uplink. Its size is found by trying: twice the window is kept if bytes then leave faster. Above the usual
 * maximum, twice the window is tried only if half of it makes bytes leave more slowly, which shows that the receivers
 * are slow. Bytes that are stuck do not count.
 */
export class Uplink {
  #inFlightBytes = 0
  /** Bytes of all messages so far. */
  #sentBytes = 0
  #window = 0
  /** The best rate so far, in bytes a second, and the smallest window that reached it. */
  #best = { rate: 0, window: 0 }
  /** The last measured rate. 0 before the first. */
  #rate = 0
  #roundsWithoutGain = 0
  /** Whether half the window is being tried. */
  #isHalved = false
  #roundFrom: Nanos = 0
  #roundBytes = 0
  /** Whether something waited because of the window. */
  #isLimiting = false
  #leftAt: Nanos = 0
  /** The longest recent time in which nothing left. */
  #gap: Nanos = 0
  /** The longest recent message. */
  #messageBytes = 128 << 10
  /** Above this window, the gain must be greater. */
  readonly #usualMax: number

  /** `usualMax`: the window exceeds this many bytes only if bytes then leave much faster. */
  constructor(usualMax: number) {
    this.#usualMax = usualMax
  }

  /** Bytes that may be sent now. `reading` bytes are reserved already. */
  takeRoom(reading: number): number {
    const room = Math.max(0, this.#windowNow - (this.#inFlightBytes + reading))
    this.#isLimiting ||= room === 0
    return room
  }

  /**
   * The longest message of several blocks: what leaves in a quarter of a second. So on a slow link other peers do not
   * wait long, and cancelled blocks are often not sent yet.
   */
  get batchBytesMax(): number {
    return this.#rate === 0 ? BATCH_BYTES_AT_FIRST : Math.max(BATCH_BYTES_MIN, Math.floor(this.#rate / 4))
  }

  handleSent(now: Nanos, bytes: number): void {
    if (this.#inFlightBytes === 0) {
      this.#roundFrom = now
      this.#roundBytes = 0
      this.#leftAt = now
    }
    this.#inFlightBytes += bytes
    this.#sentBytes += bytes
    this.#messageBytes = Math.max(bytes, Math.floor(this.#messageBytes / 8) * 7)
  }

  /** Bytes left, or were given up because their peer left. */
  handleLeft(now: Nanos, bytes: number): void {
    this.#inFlightBytes -= bytes
    this.#gap = Math.max(since(now, this.#leftAt), Math.floor(this.#gap / 16) * 15)
    this.#leftAt = now
    this.#roundBytes += bytes
    const took = since(now, this.#roundFrom)
    const window = this.#windowNow
    // While half is tried, what was in flight before leaves first.
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

  /** When to check whether anything leaves at all. */
  nextWake(): Nanos | null {
    if (!this.#isLimiting || this.#inFlightBytes === 0) return null
    return this.#leftAt + Math.max(STUCK_AFTER, this.#gap * 4)
  }

  /** Whether nothing leaves any more. */
  isStuck(now: Nanos): boolean {
    const wake = this.nextWake()
    return wake !== null && wake <= now
  }

  /** Stops counting the bytes in flight. */
  giveUp(): void {
    this.#inFlightBytes = 0
    this.#isLimiting = false
  }

  /** Twice the window, up to the usual maximum. */
  #doubled(window: number): number {
    return Math.max(window, Math.min(window * 2, this.#usualMax))
  }

  /**
   * At first two messages, because many peers wait for each block. Later more, because some peers receive slowly from
   * us while others send to them. At most what leaves in 0.7 seconds, because bytes in flight cannot be taken back.
   */
  get #windowMin(): number {
    const two = this.#messageBytes * 2
    if (this.#sentBytes <= this.#messageBytes * MESSAGES_AT_FIRST) return two
    const moment = Math.floor(this.#best.rate / 10) * 7
    return Math.max(two, Math.min(moment, this.#messageBytes * MESSAGES_MAX))
  }

  get #windowNow(): number {
    return this.#isHalved ? this.#window : Math.max(this.#window, this.#windowMin)
  }
}
