import type { Millis } from './clock.ts'
import { isShort, nextToSend, RELAY_OVERHEAD_BYTES, type Segment, type UnsentMessage } from './segment.ts'
import { readRefusal } from './server-messages.ts'

/** Segments that may be sent without a reply of the server. */
const WINDOW = 4
/** After this many timeouts in a row, the peer counts as unreachable. */
const TIMEOUTS_MAX = 3
/** A peer that is busy for this long counts as unreachable. */
const BUSY_MAX: Millis = 30_000
/** A peer that stays busy is asked less and less often, at least this often. Each refused segment has used the uplink. */
const BACKOFF_MAX: Millis = 1_000
/** The retry delay when the server sends none, and the bounds of those that it sends. */
const WAIT_DEFAULT: Millis = 50
const WAIT_MIN: Millis = 10
const WAIT_MAX: Millis = 10_000
/** Short messages, and their bytes, that are remembered after the server relayed them. The oldest is forgotten. */
const RELAYED_MAX = 16
const RELAYED_BYTES_MAX = 32 << 10
/** Shorter messages never wait for a direct connection. */
export const HELD_BYTES_MIN = 128 << 10

/** A message that is being sent. */
interface Sending {
  readonly message: UnsentMessage
  /** The parts still to be sent, as `[from, to)`. Rejected parts return here. */
  readonly ranges: [from: number, to: number][]
  /** Bytes that the server has not relayed yet. */
  left: number
}

/** Identifies a sent segment when the server replies. */
export interface SentSegment {
  readonly sending: Sending
  readonly from: number
  readonly to: number
}

/** The messages to one peer. The server relays them in segments, and may reject any segment. */
export class Outgoing {
  /** In the order of `push`. */
  #messages: Sending[] = []
  /** The last short messages that the server has relayed. */
  readonly #relayed: UnsentMessage[] = []
  /** Until then, messages of at least `HELD_BYTES_MIN` that have not begun wait for a direct connection. */
  #heldUntil: Millis | null = null
  #segmentBytesMax: number
  #inFlight = 0
  #timeouts = 0
  /** The first of the consecutive "peer busy" errors. */
  #busySince: Millis | null = null
  /** Waits in a row after which the peer was still busy. */
  #busyWaits = 0
  #retryAt: Millis | null = null

  /** `frameBytesMax`: the largest relay frame. */
  constructor(frameBytesMax: number) {
    this.#segmentBytesMax = Math.max(1, frameBytesMax - RELAY_OVERHEAD_BYTES)
  }

  push(message: UnsentMessage): void {
    const left = message.bytes.length
    this.#messages.push({ message, ranges: [[0, left]], left })
  }

  /** Whether a message waits until the server has relayed it. */
  has(id: number): boolean {
    return this.#messages.some(({ message }) => message.id === id)
  }

  /** Holds back long messages that have not begun, until then or `release`. */
  hold(until: Millis): void {
    this.#heldUntil = until
  }

  /** Returns whether messages were held back. */
  release(): boolean {
    const wasHeld = this.#heldUntil !== null
    this.#heldUntil = null
    return wasHeld
  }

  /**
   * Takes the messages that a direct connection carries from now on: the long ones that have not begun, and all short ones, so that
   * these arrive in order. The server may refuse a short message that is on its way, and one that it has relayed may be late. So the
   * first ones are the last short messages that the server has relayed. The receiver ignores those that it has read. `isAll`: also the
   * long ones that have begun, because the server cannot reach the peer. Earlier refusals and timeouts do not count when the peer is on
   * the relay again.
   */
  takeForDirect(isAll = false): UnsentMessage[] {
    const isTaken = ({ message: { bytes }, ranges }: Sending) =>
      isAll || isShort(bytes) || ranges.reduce((sum, [from, to]) => sum + to - from, 0) === bytes.length
    const taken = this.#messages.filter(isTaken)
    this.#messages = this.#messages.filter((each) => !taken.includes(each))
    this.#timeouts = 0
    this.#busySince = null
    this.#busyWaits = 0
    return [...this.#relayed.splice(0), ...taken.map(({ message }) => message)]
  }

  /** The next segment to send now. `null` if nothing can be sent. */
  next(now: Millis): { readonly sent: SentSegment; readonly segment: Segment } | null {
    if (this.#heldUntil !== null && this.#heldUntil <= now) this.#heldUntil = null
    if (!this.#hasRoom || (this.#retryAt !== null && this.#retryAt > now)) return null
    if (this.#retryAt !== null && this.#busySince !== null) this.#busyWaits++
    this.#retryAt = null
    const sending = nextToSend(this.#sendable())
    const range = sending?.ranges[0]
    if (sending === null || range === undefined) return null
    const [from, end] = range
    const to = Math.min(end, from + this.#segmentBytesMax)
    if (to === end) sending.ranges.shift()
    else range[0] = to
    this.#inFlight++
    const { id, bytes } = sending.message
    const segment = { message: id, offset: from, total: bytes.length, bytes: bytes.subarray(from, to) }
    return { sent: { sending, from, to }, segment }
  }

  /**
   * The messages of which a part can be sent now. A short message waits until the server has relayed the short one before it. If the
   * server refused a `cancel` and relayed the `want-have` after it, the late `cancel` would remove that want-have, and nobody would
   * send it again. A message that has begun stays on the relay.
   */
  #sendable(): Sending[] {
    const first = this.#messages.find(({ message }) => isShort(message.bytes))
    return this.#messages.filter((each) => {
      const { bytes } = each.message
      const waits = isShort(bytes) ? each !== first : this.#heldUntil !== null && bytes.length >= HELD_BYTES_MIN
      const range = each.ranges[0]
      return range !== undefined && (!waits || range[0] > 0)
    })
  }

  /** One segment is enough to find out whether the peer is still busy. */
  get #hasRoom(): boolean {
    return this.#inFlight < (this.#busySince === null ? WINDOW : 1)
  }

  /** When to call `next` again. `Infinity`: after a reply or a `push`. */
  nextWake(): Millis {
    if (!this.#hasRoom || this.#messages.every(({ ranges }) => ranges.length === 0)) return Infinity
    return Math.min(this.#heldUntil ?? Infinity, this.#retryAt ?? Infinity)
  }

  /** The server relayed a segment. Returns its message if that was the last segment. */
  handleRelayed({ sending, from, to }: SentSegment): UnsentMessage | null {
    this.#inFlight--
    this.#timeouts = 0
    this.#busySince = null
    this.#busyWaits = 0
    sending.left -= to - from
    const at = this.#messages.indexOf(sending)
    if (sending.left > 0 || at === -1) return null
    this.#messages.splice(at, 1)
    this.#remember(sending.message)
    return sending.message
  }

  #remember(message: UnsentMessage): void {
    if (!isShort(message.bytes)) return
    const relayed = this.#relayed
    relayed.push({ ...message, isReported: true, isRelayed: true })
    let bytes = relayed.reduce((sum, each) => sum + each.bytes.length, 0)
    while (relayed.length > RELAYED_MAX || bytes > RELAYED_BYTES_MAX) bytes -= relayed.shift()?.bytes.length ?? bytes
  }

  /** The server refused a segment with this response. Returns whether the peer can still be reached. */
  handleError(now: Millis, segment: SentSegment, response: unknown): boolean {
    this.#requeue(segment)
    const { reason, retryAfter, max } = readRefusal(response)
    const wait = retryAfter ?? WAIT_DEFAULT
    const length = segment.to - segment.from + RELAY_OVERHEAD_BYTES
    if (reason === 'peer busy') {
      this.#busySince ??= now
      if (now - this.#busySince >= BUSY_MAX) return false
      this.#wait(now, Math.max(wait, Math.min(BACKOFF_MAX, wait * 2 ** this.#busyWaits)))
    } else if (reason === 'relay budget') this.#wait(now, wait)
    else if (reason === 'relay frame too large' && max > RELAY_OVERHEAD_BYTES && length > max)
      this.#segmentBytesMax = max - RELAY_OVERHEAD_BYTES
    else return false
    return true
  }

  /** The server did not reply. Returns whether the peer can still be reached. */
  handleTimeout(segment: SentSegment): boolean {
    this.#requeue(segment)
    return ++this.#timeouts < TIMEOUTS_MAX
  }

  #requeue({ sending, from, to }: SentSegment): void {
    this.#inFlight--
    sending.ranges.unshift([from, to])
  }

  #wait(now: Millis, wait: Millis): void {
    this.#retryAt = Math.max(this.#retryAt ?? 0, now + Math.min(WAIT_MAX, Math.max(WAIT_MIN, wait)))
  }
}

/** The messages with blocks that a peer has not read, as far as this tab knows. */
export class UnreadBlocks {
  /** How many messages with blocks were sent to the peer. */
  sent = 0
  /** The numbers of those that the peer has not read, in the order in which they were sent. */
  readonly #unread: number[] = []

  noteSent(id: number): void {
    this.sent++
    this.#unread.push(id)
  }

  /** How many messages the peer has read. A peer reads long messages in order, so one before these was lost if it was not read. */
  update(isUnread: (id: number) => boolean): number {
    this.#unread.splice(0, this.#unread.findLastIndex((id) => !isUnread(id)) + 1)
    return this.sent - this.#unread.length
  }
}
