import type { Millis } from '../clock.ts'

/**
 * How many bytes one data channel may have under way, found from the receipts of the other side.
 *
 * SCTP, which carries a data channel, doubles its window in each round trip until the queue of the slowest link overflows. It then
 * loses a whole window of packets at once and repeats them over many round trips. A limit of what the browser buffers does not
 * help, because packets under way are not buffered. So this window keeps SCTP from filling the queue.
 *
 * - The sender marks some of its frames, and the other side answers each mark with a receipt. A mark and its receipt give a round trip,
 *   and the bytes between two receipts, divided by the time, are the rate of the line.
 * - The shortest round trip is the path without a queue. All beyond it is time in a queue.
 * - The window begins with 64 KiB and doubles in each round trip, by at most `STEP_BYTES`, until there is a queue.
 * - From then on it is what the line carries in the shortest round trip and in `QUEUE_TIME` of a queue. While the queue is shorter,
 *   each round trip finds a higher rate than the one before, and the window grows by itself. A part of it grows with the root of
 *   the rate, so that two senders on one line come to have the same rate.
 * - A queue that is twice as long shrinks the window. If the rate then falls and the queue does not, the queue is of others, such as a TCP
 *   download, or the path has become longer. The present round trip then counts as the shortest, and SCTP itself shares the line.
 * - Frames leave at the pace of the window, with short bursts: receipts of a tab that was busy come together, and a whole window would
 *   follow them into the queue.
 *
 * In numbers: 100 Mbit/s and a round trip of 100 ms need 1.25 MB under way. That takes ten round trips, and the window then goes beyond
 * it by 160 KiB, of which a queue of 512 KiB loses nothing.
 */
export class SendWindow {
  /** The windows that fill the same line together. Each takes its part of every step, so that all of them do not overflow a queue. */
  windows: number
  #bytes: number
  #sentBytes = 0
  #receivedBytes = 0
  /** When that was confirmed, and when it was sent. */
  #receivedAt: Millis = 0
  #receivedSentAt: Millis = 0
  /** The marks without a receipt, in order. At most `BYTES_MAX / MARK_BYTES_MIN`. */
  readonly #marks: Mark[] = []
  #markedBytes = 0
  /** The shortest round trip. */
  #shortest: Millis = Infinity
  #isStarting = true
  /** Bytes that may be sent without a pause, since when. */
  #credit = 0
  #creditAt: Millis = 0
  #round = newRound(0)
  /** Whether SCTP sent all that it got in the last round. */
  #wasFree = false
  /** The rates of the last rounds, in bytes per millisecond. */
  #rates: number[] = []
  /** The first of several rounds in a row with a long queue. */
  #long: { rate: number; roundTrip: Millis; rounds: number } | null = null

  constructor(windows = 1) {
    this.windows = windows
    this.#bytes = START_BYTES / windows
  }

  /**
   * Bytes that may still be sent. There is always room for a frame while no mark awaits its receipt: receipts and signals of this side count
   * as sent, and no other frame would ever confirm them.
   */
  get room(): number {
    const room = this.#bytes - (this.#sentBytes - this.#receivedBytes)
    return this.#marks.length === 0 ? Math.max(1, room) : room
  }

  /**
   * How long to wait before the next frame. A tab that was busy sends many receipts at once, and without a pause a whole window would
   * follow them into the queue.
   */
  pause(now: Millis): Millis {
    const pace = this.#pace
    if (pace === Infinity) return 0
    this.#credit = Math.min(BURST_BYTES / this.windows, this.#credit + (now - this.#creditAt) * pace)
    this.#creditAt = now
    return this.#credit > 0 ? 0 : Math.max(1, -this.#credit / pace)
  }

  /** Bytes per millisecond. */
  get #pace(): number {
    if (this.#shortest === Infinity || this.#isLocal) return Infinity
    return (this.#bytes / this.#shortest) * PACE
  }

  /** The longest frame: a few milliseconds of a slow line, so that a want does not wait behind a long one. */
  get frameBytes(): number {
    return Math.max(FRAME_BYTES_MIN, Math.floor(Math.max(0, ...this.#rates) * FRAME_TIME))
  }

  /** Whether the other side should confirm a frame of this length, which is sent next. */
  asksFor(frameBytes: number): boolean {
    const unmarked = this.#sentBytes + frameBytes - this.#markedBytes
    // The first frame shows the path before SCTP keeps anything waiting.
    return (
      this.#markedBytes === 0 || unmarked >= Math.min(MARK_BYTES_MAX, Math.max(MARK_BYTES_MIN, this.#bytes / 8)) || this.room <= frameBytes
    )
  }

  /** The channel buffers this much before it gets the next frames. Then SCTP limits what leaves, and bytes wait for it. */
  handleBuffered(bytes: number): void {
    this.#round.leastBuffered = Math.min(this.#round.leastBuffered, bytes)
  }

  /** Whether SCTP needs long to recover from a loss: it grows by a packet in each round trip. */
  get isLong(): boolean {
    return this.#receivedBytes > START_BYTES && this.#shortest >= LONG_MIN
  }

  /** Whether both ends are on one machine or in one room. There the browsers' own pauses are longer than any queue. */
  get #isLocal(): boolean {
    return this.#shortest <= LOCAL_MAX
  }

  /** A frame was given to the channel. */
  handleSent(now: Millis, frameBytes: number, isMarked: boolean): void {
    if (this.#sentBytes === this.#receivedBytes) this.#receivedAt = this.#receivedSentAt = now
    this.#sentBytes += frameBytes
    this.#credit -= frameBytes
    if (this.room <= 0) this.#round.wasLimited = true
    if (!isMarked) return
    this.#markedBytes = this.#sentBytes
    this.#marks.push({
      bytes: this.#sentBytes,
      at: now,
      receivedBytes: this.#receivedBytes,
      receivedAt: this.#receivedAt,
      sentFor: now - this.#receivedSentAt,
    })
  }

  /** The other side has received this many bytes. Returns whether that is true of an honest peer. */
  handleReceipt(now: Millis, receivedBytes: number): boolean {
    const mark = this.#marks.shift()
    if (mark?.bytes !== receivedBytes) return false
    this.#receivedBytes = receivedBytes
    this.#receivedAt = now
    this.#receivedSentAt = mark.at
    const roundTrip = now - mark.at
    this.#shortest = Math.min(this.#shortest, roundTrip)
    this.#round.shortest = Math.min(this.#round.shortest, roundTrip)
    if (receivedBytes >= this.#round.until) this.#endRound(mark, now)
    return true
  }

  #endRound(mark: Mark, now: Millis): void {
    const { shortest, leastBuffered, wasLimited } = this.#round
    // Receipts of a tab that was busy come together, faster than the line is. The bytes did not leave faster than it.
    const rate = (this.#receivedBytes - mark.receivedBytes) / Math.max(1, now - mark.receivedAt, mark.sentFor)
    const best = Math.max(0, ...this.#rates)
    this.#round = newRound(this.#sentBytes)
    // A round in which there was less to send than the window tells nothing of the line, unless it was faster.
    if (!wasLimited && rate < best) return
    this.#rates = [...this.#rates, rate].slice(-RATES_MAX)
    // Bytes that waited for SCTP, in this round or since the one before, do not tell how long they were in a queue of the line.
    const isFree = leastBuffered === 0 && this.#wasFree
    this.#wasFree = leastBuffered === 0
    const queue = isFree ? shortest - this.#shortest : null
    if (this.#isStarting) {
      if (queue !== null && queue > START_QUEUE_MAX) this.#isStarting = false
      else if (isFree) this.#resize(2 * this.#bytes)
    } else if (queue !== null && queue > 2 * QUEUE_TIME) this.#shrink(rate, shortest)
    else {
      this.#long = null
      const part = queue !== null && queue < START_QUEUE_MAX ? this.#shortest / 4 : 0
      this.#fit(Math.max(best, rate), Math.max(QUEUE_TIME, part))
    }
  }

  /** The queue is too long. */
  #shrink(rate: number, roundTrip: Millis): void {
    this.#rates = [rate]
    this.#long ??= { rate, roundTrip, rounds: 0 }
    const { rate: rateThen, roundTrip: then, rounds } = this.#long
    this.#long.rounds++
    if (rounds >= LONG_ROUNDS && rate < rateThen * 0.75 && roundTrip > then * 0.85) {
      this.#shortest = roundTrip
      this.#long = null
    }
    this.#fit(rate, QUEUE_TIME)
  }

  /** Takes what leaves in the shortest round trip and in this time of a queue. */
  #fit(rate: number, queueTime: Millis): void {
    this.#resize(rate * (this.#shortest + queueTime) + EXTRA * Math.sqrt(rate))
  }

  #resize(bytes: number): void {
    const least = this.#isLocal ? LOCAL_BYTES_MIN : BYTES_MIN
    const target = Math.min(bytes, this.#bytes + STEP_BYTES / this.windows, BYTES_MAX)
    this.#bytes = Math.max(least, target)
  }
}

/** A frame that the other side confirms, and what was confirmed when it was sent. */
interface Mark {
  /** All bytes that were sent, up to its end. */
  readonly bytes: number
  readonly at: Millis
  readonly receivedBytes: number
  readonly receivedAt: Millis
  /** The time between the sending of what was confirmed and of this one. */
  readonly sentFor: Millis
}

/** A round trip: it ends when all that was sent before it is confirmed. */
interface Round {
  readonly until: number
  shortest: Millis
  /** The least bytes that the channel buffered. */
  leastBuffered: number
  /** Whether the window kept something from being sent. */
  wasLimited: boolean
}

function newRound(until: number): Round {
  return { until, shortest: Infinity, leastBuffered: Infinity, wasLimited: false }
}

/** Fits into the shortest queues of home routers, and into the first round trips of SCTP. */
const START_BYTES = 64 << 10
const BYTES_MIN = 16 << 10
const BYTES_MAX = 4 << 20
const FRAME_BYTES_MIN = 4 << 10
const FRAME_TIME: Millis = 5
/** The window grows by at most this in a round trip. */
const STEP_BYTES = 160 << 10
/** Marks are at least this far apart, unless the window is full. */
const MARK_BYTES_MIN = 4 << 10
const MARK_BYTES_MAX = 64 << 10
/** The time that bytes may spend in the queue of the slowest link. Calls and games beside us feel it. */
const QUEUE_TIME: Millis = 20
/** The part of the window by which two senders on one line come to have the same rate: the slower one grows by more of its own. */
const EXTRA = 350
/** A queue this long ends the start. */
const START_QUEUE_MAX: Millis = 4
/** Frames are sent at this part of the window in a round trip, after a burst. */
const PACE = 1.2
const BURST_BYTES = 64 << 10
const RATES_MAX = 8
const LONG_MIN: Millis = 15
const LOCAL_MAX: Millis = 3
const LOCAL_BYTES_MIN = 512 << 10
/** Rounds with a long queue before it is of others. */
const LONG_ROUNDS = 3
