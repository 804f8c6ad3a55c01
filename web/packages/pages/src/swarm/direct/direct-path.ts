import type { Bytes } from '../../content/index.ts'
import type { Clock, Millis } from '../clock.ts'
import type { UnacknowledgedMessage, MessagePath } from '../message-path.ts'
import { RecentSet } from '../../bitswap/index.ts'
import { isShort, nextToSend, type Segment } from '../segment.ts'
import { decodeFrame, encodeReadFrame, encodeSegmentFrame, PART_BYTES_MAX } from './frame.ts'
import type { DataChannel } from './rtc-interfaces.ts'

/**
 * Bytes that the browser may buffer for the channel. At the limit, nothing is sent until only the lower number is left.
 */
const BUFFERED_BYTES_MAX = 1 << 20
const BUFFERED_BYTES_LOW = 256 << 10
/** Messages, and their bytes, that the other side may have left unread. Short messages may use a few more places. */
const UNREAD_MAX = 8
const UNREAD_BYTES_MAX = 4 << 20
const UNREAD_SHORT_MAX = 12
/** Messages that are remembered as sent and taken back: more than may be unread at once, for a few breaks. */
const TAKEN_BACK_REMEMBERED = 64
/**
 * Timeout of a path that accepts data without a sign that anything arrives. The browser itself notices after five seconds
 * that the network is gone. This is longer, because a tab that is only busy must not get all its messages again by relay.
 */
const SILENCE_MAX: Millis = 10_000
/** After this time without a sign of the other side, this side asks whether its own network still exists. */
const QUIET_MAX: Millis = 2_000
/** A timer that fires this late shows that the tab was busy. Frames may be waiting that it has not read. */
const LATE_TIMER_MIN: Millis = 500

export interface PathEvents {
  /** The path can be used, for the first time or after a pause. */
  readonly onUp: () => void
  /** The path cannot be used for now. */
  readonly onDown: () => void
  readonly onSegment: (segment: Segment) => void
  /** A frame arrived that no honest peer sends. */
  readonly onMalformed: () => void
  /** Nothing arrives from the other side for a moment, although it should. */
  readonly onQuiet: () => void
  /** Nothing arrives from the other side. The path is up again when something does. */
  readonly onSilent: () => void
  /** The channel accepts no data any more. */
  readonly onBroken: () => void
}

interface Outgoing {
  readonly id: number
  readonly message: Bytes
  /** The bytes of the message that were given to the channel. */
  sentBytes: number
  /** All bytes that the channel had been given when it had the last one of the message. */
  endsAt: number
  resolve: () => void
  reject: (reason: Error) => void
}

/** Messages over a data channel. Each is kept until the other side has read it, because the path may break. */
export class DirectPath implements MessagePath {
  readonly #channel: DataChannel
  readonly #clock: Clock
  readonly #events: PathEvents
  /** In the order of their numbers. */
  readonly #outgoing = new Map<number, Outgoing>()
  /**
   * Messages that the other side may have, although they were taken back when the path broke. They may be sent again.
   */
  readonly #takenBack = new RecentSet<number>(TAKEN_BACK_REMEMBERED)
  #isConnected = false
  #isOver = false
  #isSilent = false
  #isUp = false
  #givenBytes = 0
  /** Bytes that had left the browser at the last check. */
  #leftBytes = 0
  #aliveAt: Millis = 0
  /** When anything was last sent or received. */
  movedAt: Millis
  #stopWatching: (() => void) | null = null

  constructor(channel: DataChannel, clock: Clock, events: PathEvents) {
    this.#channel = channel
    this.#clock = clock
    this.#events = events
    this.movedAt = clock.now()
    channel.binaryType = 'arraybuffer'
    channel.bufferedAmountLowThreshold = BUFFERED_BYTES_LOW
    channel.addEventListener('open', () => this.#updateUp())
    channel.addEventListener('close', () => this.close())
    channel.addEventListener('bufferedamountlow', () => {
      this.#pump()
      this.#resolveLeft()
    })
    channel.addEventListener('message', (event) => this.#handleFrame((event as MessageEvent<unknown>).data))
  }

  /** Whether messages may be sent on the path. */
  get isUp(): boolean {
    return this.#isUp
  }

  get isBusy(): boolean {
    return this.#outgoing.size > 0
  }

  /** Whether the path waits for a sign of the other side, which may only be busy. */
  get isSilent(): boolean {
    return this.#isSilent
  }

  /** The connection under the channel is up, or is not for now. */
  setConnected(isLinked: boolean): void {
    this.#isConnected = isLinked
    this.#updateUp()
  }

  /**
   * Resolves when nearly all of the message has left the browser's buffer, so that the exchange knows how fast its uplink is. The
   * message may not have arrived, see `takeUnacknowledged`.
   */
  send(id: number, message: Bytes): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#outgoing.size === 0) this.#aliveAt = this.#clock.now()
      this.#outgoing.set(id, { id, message, sentBytes: 0, endsAt: Infinity, resolve, reject })
      this.#pump()
      this.#scheduleCheck()
    })
  }

  hasUnread(id: number): boolean {
    return this.#outgoing.has(id)
  }

  /** Tells the other side that its message was read. */
  acknowledge(id: number): void {
    if (this.#channel.readyState === 'open') this.#sendFrame(encodeReadFrame(id))
  }

  /** Takes all messages that the other side may not have read. The caller is responsible for them from now on. */
  takeUnacknowledged(): UnacknowledgedMessage[] {
    const unread = [...this.#outgoing.values()]
    for (const { id, message, sentBytes } of unread) if (sentBytes === message.length) this.#takenBack.add(id)
    this.#outgoing.clear()
    this.#stopWatching?.()
    this.#stopWatching = null
    return unread
  }

  close(): void {
    this.#isOver = true
    this.#updateUp()
    // The caller has taken back its messages, so it also sends the rest.
    for (const { reject } of this.takeUnacknowledged()) reject(new Error('the path is closed'))
  }

  #updateUp(): void {
    const isUp = this.#isConnected && !this.#isOver && !this.#isSilent && this.#channel.readyState === 'open'
    if (isUp === this.#isUp) return
    this.#isUp = isUp
    if (isUp) this.#events.onUp()
    else this.#events.onDown()
  }

  #pump(): void {
    while (this.#isUp && this.#channel.bufferedAmount < BUFFERED_BYTES_MAX) {
      const next = this.#next()
      if (next === null) return
      const { id, message, sentBytes } = next
      const bytes = message.subarray(sentBytes, sentBytes + PART_BYTES_MAX)
      const segment = { message: id, offset: sentBytes, total: message.length, bytes }
      if (!this.#sendFrame(encodeSegmentFrame(segment))) return
      next.sentBytes += bytes.length
      if (next.sentBytes < message.length) continue
      next.endsAt = this.#givenBytes
      this.#resolveLeft()
    }
  }

  /** Resolves the messages of which the buffer has little left. */
  #resolveLeft(): void {
    const left = this.#givenBytes - this.#channel.bufferedAmount + BUFFERED_BYTES_LOW
    for (const { endsAt, message, resolve } of this.#outgoing.values()) {
      if (endsAt <= left || (isShort(message) && endsAt < Infinity)) resolve()
    }
  }

  #next(): Outgoing | null {
    const outgoing = [...this.#outgoing.values()]
    const begun = outgoing.filter(({ sentBytes }) => sentBytes > 0)
    const begunBytes = begun.reduce((sum, { message }) => sum + message.length, 0)
    const hasRoom = (message: Bytes) =>
      isShort(message) ? begun.length < UNREAD_SHORT_MAX : begun.length < UNREAD_MAX && begunBytes < UNREAD_BYTES_MAX
    return nextToSend(outgoing.filter(({ message, sentBytes }) => sentBytes < message.length && (sentBytes > 0 || hasRoom(message))))
  }

  #sendFrame(frame: Bytes): boolean {
    try {
      this.#channel.send(frame)
    } catch {
      // The channel is closing or full. In both cases it is of no use any more.
      this.#events.onBroken()
      return false
    }
    this.#givenBytes += frame.length
    this.movedAt = this.#clock.now()
    return true
  }

  #handleFrame(data: unknown): void {
    if (this.#isOver) return
    this.#aliveAt = this.movedAt = this.#clock.now()
    this.#isSilent = false
    this.#updateUp()
    const frame = decodeFrame(data)
    if (frame === null) this.#events.onMalformed()
    else if (frame.kind === 'segment') this.#events.onSegment(frame.segment)
    else this.#handleRead(frame.message)
  }

  #handleRead(id: number): void {
    const outgoing = this.#outgoing.get(id)
    if (outgoing === undefined) return
    // A message that was not sent completely cannot have been read, unless it was sent before a break.
    if (outgoing.sentBytes < outgoing.message.length && !this.#takenBack.has(id)) {
      this.#events.onMalformed()
      return
    }
    this.#outgoing.delete(id)
    outgoing.resolve()
    this.#pump()
  }

  /** Checks regularly whether anything arrives. */
  #scheduleCheck(): void {
    const due = this.#clock.now() + QUIET_MAX
    this.#stopWatching ??= this.#clock.after(QUIET_MAX, () => {
      this.#stopWatching = null
      if (this.#outgoing.size === 0) return
      const now = this.#clock.now()
      const leftBytes = this.#givenBytes - this.#channel.bufferedAmount
      if (leftBytes > this.#leftBytes || now - due > LATE_TIMER_MIN) this.#aliveAt = now
      this.#leftBytes = leftBytes
      if (now - this.#aliveAt < SILENCE_MAX) {
        if (now - this.#aliveAt >= QUIET_MAX) this.#events.onQuiet()
        this.#scheduleCheck()
        return
      }
      this.#isSilent = true
      this.#updateUp()
      this.#events.onSilent()
    })
  }
}
