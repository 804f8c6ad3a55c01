import type { Bytes } from '../../content/index.ts'
import type { Clock, Millis } from '../clock.ts'
import { RecentSet } from '../../bitswap/index.ts'
import { isShort, nextToSend, SHORT_BYTES_MAX, type Segment, type UnsentMessage } from '../segment.ts'
import { decodeFrame, encodeLaneFrame, encodeReadFrame } from './frame.ts'
import { Lane } from './lane.ts'
import type { DataChannel } from './rtc-interfaces.ts'
import { SendWindow } from './send-window.ts'

/** A message counts as sent when the browser buffers less than this of it. */
const BUFFERED_BYTES_LOW = 256 << 10
/** A path that is long opens lanes when the other side wants this much. */
const LANES_BYTES_MIN = 1 << 20
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

export type PathEvent =
  /** The path can be used, for the first time or after a pause. */
  | { readonly kind: 'up' }
  /** The path cannot be used for now. The other side may not have read these messages. */
  | { readonly kind: 'down'; readonly unread: readonly UnsentMessage[] }
  | { readonly kind: 'segment'; readonly segment: Segment }
  /**
   * Nearly all of a message has left the browser's buffer, so that the exchange knows how fast its uplink is. The message may not have
   * arrived. The event is repeated until `isReported` is set.
   */
  | { readonly kind: 'sent'; readonly message: UnsentMessage }
  /** Nothing arrives from the other side for a moment, although it should. */
  | { readonly kind: 'quiet' }
  /** A frame arrived that no honest peer sends. */
  | { readonly kind: 'misbehaved' }
  /** Nothing arrives from the other side. The path is up again when something does. */
  | { readonly kind: 'silent' }
  /** The channel accepts no data any more. */
  | { readonly kind: 'broken' }
  /** Several connections would carry more than this one. Happens once. */
  | { readonly kind: 'narrow' }
  /** The other side signals about a connection beside this one. */
  | { readonly kind: 'lane-signal'; readonly signal: string }

/** The events of a path that concern only the call or the stream below it. */
export type InnerPathEvent = PathEvent & { readonly kind: 'silent' | 'broken' | 'narrow' | 'lane-signal' }

interface Outgoing {
  readonly message: UnsentMessage
  /** The bytes of the message that were given to a channel. */
  sentBytes: number
  /** Parts of these that were lost with a lane, as `[from, to)`. */
  readonly lost: [from: number, to: number][]
  /** All bytes that the channel had been given when it had the last one of the message. */
  endsAt: number
}

/**
 * Messages over a data channel, and over lanes beside it. Each is kept until the other side has read it, because the path may break.
 *
 * A lane is a data channel of another connection to the same peer. SCTP halves what it sends when it loses a packet, and grows by a
 * packet in each round trip. With the first connection and three lanes, a loss halves a quarter. Only long messages use lanes, so that short ones keep their order.
 */
export class DirectPath {
  #first: Lane
  /** The channel of the path itself, and after it the lanes in use. */
  #lanes: Lane[]
  #isNarrow = false
  readonly #clock: Clock
  readonly #emit: (event: PathEvent) => void
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
  /** Bytes that all channels were given. */
  #givenBytes = 0
  /** Bytes that had left the browser at the last check. */
  #leftBytes = 0
  #aliveAt: Millis = 0
  /** When anything was last sent or received. */
  movedAt: Millis
  #stopWatching: (() => void) | null = null
  #stopPause: (() => void) | null = null

  constructor(channel: DataChannel, clock: Clock, emit: (event: PathEvent) => void) {
    this.#first = new Lane(channel, null)
    this.#lanes = [this.#first]
    this.#clock = clock
    this.#emit = emit
    this.movedAt = clock.now()
    channel.addEventListener('open', () => this.#updateUp())
    channel.addEventListener('close', () => this.close())
    this.#listen(channel, () => this.#first)
  }

  #listen(channel: DataChannel, lane: () => Lane): void {
    channel.binaryType = 'arraybuffer'
    channel.bufferedAmountLowThreshold = BUFFERED_BYTES_LOW
    channel.addEventListener('bufferedamountlow', () => {
      this.#pump()
      this.#reportLeft()
    })
    channel.addEventListener('message', (event) => this.#handleFrame(lane(), (event as MessageEvent<unknown>).data))
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

  /** The other side sends receipts for marked segments, as this one does. Call it before the path is up. */
  useReceipts(): void {
    if (this.#first.givenBytes > 0 || this.#first.window !== null) return
    this.#first = new Lane(this.#first.channel, new SendWindow())
    this.#lanes = [this.#first]
  }

  /** Uses an open channel of another connection too. Returns what ends that, once the channel is of no use any more. */
  addLane(channel: DataChannel): () => void {
    const lane = new Lane(channel, new SendWindow(this.#lanes.length + 1))
    this.#lanes.push(lane)
    this.#divideSteps()
    this.#listen(channel, () => lane)
    this.#pump()
    return () => this.#dropLane(lane)
  }

  /** Tells the other side something about a lane. */
  signalLane(signal: string): void {
    this.#sendFrame(encodeLaneFrame(signal))
  }

  #divideSteps(): void {
    for (const { window } of this.#lanes) if (window !== null) window.windows = this.#lanes.length
  }

  /** Parts that were under way on a lane are sent again on the others. */
  #dropLane(lane: Lane): void {
    this.#lanes = this.#lanes.filter((each) => each !== lane)
    this.#divideSteps()
    for (const { message, from, to } of lane.takeUnconfirmed()) this.#outgoing.get(message)?.lost.push([from, to])
    this.#pump()
  }

  /** The connection under the channel is up, or is not for now. */
  setConnected(isLinked: boolean): void {
    this.#isConnected = isLinked
    this.#updateUp()
  }

  /** Sends a message. Only while the path is up. */
  send(message: UnsentMessage): void {
    if (this.#outgoing.size === 0) this.#aliveAt = this.#clock.now()
    this.#outgoing.set(message.id, { message, sentBytes: 0, lost: [], endsAt: Infinity })
    this.#pump()
    this.#scheduleCheck()
  }

  /** Whether the other side may not have read a message that was sent on the path. */
  hasUnread(id: number): boolean {
    return this.#outgoing.has(id)
  }

  /** Tells the other side that its message was read. */
  acknowledge(id: number): void {
    if (this.#first.channel.readyState === 'open') this.#sendFrame(encodeReadFrame(id))
  }

  /** Takes all messages that the other side may not have read. */
  #takeUnread(): UnsentMessage[] {
    const unread = [...this.#outgoing.values()]
    for (const { message, sentBytes } of unread) if (sentBytes === message.bytes.length) this.#takenBack.add(message.id)
    this.#outgoing.clear()
    // They may be sent again under the same numbers, from their beginning.
    for (const lane of this.#lanes) lane.takeUnconfirmed()
    this.#stopWatching?.()
    this.#stopWatching = null
    return unread.map(({ message }) => message)
  }

  close(): void {
    this.#isOver = true
    this.#updateUp()
  }

  #updateUp(): void {
    const isUp = this.#isConnected && !this.#isOver && !this.#isSilent && this.#first.channel.readyState === 'open'
    if (isUp === this.#isUp) return
    this.#isUp = isUp
    this.#emit(isUp ? { kind: 'up' } : { kind: 'down', unread: this.#takeUnread() })
  }

  #pump(): void {
    for (const { window, channel } of this.#lanes) window?.handleBuffered(channel.bufferedAmount)
    while (this.#isUp) {
      const next = this.#next()
      const lane = next && this.#laneFor(next.message.bytes)
      if (next === null || lane === null) return
      const { message, sentBytes } = next
      const { id, bytes } = message
      // A lost part has the same bounds again: the other side may have it.
      const lost = next.lost.shift()
      const [from, to] = lost ?? [sentBytes, Math.min(bytes.length, sentBytes + lane.partBytesMax(bytes.length))]
      this.movedAt = this.#clock.now()
      const before = lane.givenBytes
      if (!lane.sendPart(this.movedAt, { message: id, from, to }, bytes)) {
        if (lost !== undefined) next.lost.unshift(lost)
        if (lane === this.#first) this.#emit({ kind: 'broken' })
        else this.#dropLane(lane)
        return
      }
      this.#givenBytes += lane.givenBytes - before
      if (lost === undefined) next.sentBytes = to
      if (!isGiven(next)) continue
      next.endsAt = this.#givenBytes
      this.#reportLeft()
    }
  }

  /** The lane for the next part of a message. `null` if each is full, or must pause. */
  #laneFor(message: Bytes): Lane | null {
    const now = this.#clock.now()
    if (this.#first.window === null) return this.#first.isFull ? null : this.#first
    // A short message has a place of its own, so that a want does not wait behind blocks.
    if (isShort(message)) return this.#first.isFull || this.#first.window.room <= -SHORT_BYTES_MAX ? null : this.#first
    let best: Lane | null = null
    let pause: Millis = Infinity
    for (const lane of this.#lanes) {
      const room = lane.isFull ? 0 : (lane.window?.room ?? 0)
      if (room <= (best?.window?.room ?? 0)) continue
      const own = lane.window?.pause(now) ?? 0
      if (own === 0) best = lane
      else pause = Math.min(pause, own)
    }
    if (best === null && pause < Infinity)
      this.#stopPause ??= this.#clock.after(pause, () => {
        this.#stopPause = null
        this.#pump()
      })
    return best
  }

  /** Bytes that left the browser's buffers. */
  get #leftBytesNow(): number {
    return this.#lanes.reduce((sum, { channel }) => sum - channel.bufferedAmount, this.#givenBytes)
  }

  /** Reports the messages of which the buffer has little left. */
  #reportLeft(): void {
    const left = this.#leftBytesNow + BUFFERED_BYTES_LOW
    for (const { endsAt, message } of this.#outgoing.values()) {
      if (endsAt <= left || (isShort(message.bytes) && endsAt < Infinity)) this.#reportSent(message)
    }
  }

  #reportSent(message: UnsentMessage): void {
    if (!message.isReported) this.#emit({ kind: 'sent', message })
  }

  #next(): Outgoing | null {
    const outgoing = [...this.#outgoing.values()]
    const begun = outgoing.filter(({ sentBytes }) => sentBytes > 0)
    const begunBytes = begun.reduce((sum, { message }) => sum + message.bytes.length, 0)
    const hasRoom = ({ bytes }: UnsentMessage) =>
      isShort(bytes) ? begun.length < UNREAD_SHORT_MAX : begun.length < UNREAD_MAX && begunBytes < UNREAD_BYTES_MAX
    return nextToSend(outgoing.filter((each) => !isGiven(each) && (each.sentBytes > 0 || hasRoom(each.message))))
  }

  /** Sends a frame beside the messages. */
  #sendFrame(frame: Bytes, lane = this.#first): void {
    this.movedAt = this.#clock.now()
    if (lane.send(this.movedAt, frame)) this.#givenBytes += frame.length
    else if (lane === this.#first) this.#emit({ kind: 'broken' })
  }

  #handleFrame(lane: Lane, data: unknown): void {
    if (this.#isOver) return
    this.#aliveAt = this.movedAt = this.#clock.now()
    this.#isSilent = false
    this.#updateUp()
    const frame = decodeFrame(data)
    if (frame === null) {
      this.#emit({ kind: 'misbehaved' })
      return
    }
    lane.noteArrived((data as ArrayBuffer).byteLength)
    switch (frame.kind) {
      case 'segment':
        if (frame.isMarked) this.#sendFrame(lane.receipt(), lane)
        this.#emit({ kind: 'segment', segment: frame.segment })
        return
      case 'read':
        this.#handleRead(frame.message)
        return
      case 'receipt':
        this.#handleReceipt(lane, frame.bytes)
        return
      case 'lane':
        this.#emit({ kind: 'lane-signal', signal: frame.signal })
        return
    }
  }

  #handleReceipt(lane: Lane, bytes: number): void {
    if (!lane.handleReceipt(this.#clock.now(), bytes)) {
      this.#emit({ kind: 'misbehaved' })
      return
    }
    this.#pump()
    // Lanes of the other side carry both directions.
    if (this.#isNarrow || this.#lanes.length > 1 || this.#first.window?.isLong !== true || this.#unreadBytes < LANES_BYTES_MIN) return
    this.#isNarrow = true
    this.#emit({ kind: 'narrow' })
  }

  /** Bytes of the messages that the other side has not read. */
  get #unreadBytes(): number {
    return [...this.#outgoing.values()].reduce((sum, { message }) => sum + message.bytes.length, 0)
  }

  #handleRead(id: number): void {
    const outgoing = this.#outgoing.get(id)
    if (outgoing === undefined) return
    // A message that was not sent completely cannot have been read, unless it was sent before a break.
    if (outgoing.sentBytes < outgoing.message.bytes.length && !this.#takenBack.has(id)) {
      this.#emit({ kind: 'misbehaved' })
      return
    }
    this.#outgoing.delete(id)
    this.#reportSent(outgoing.message)
    this.#pump()
  }

  /** Checks regularly whether anything arrives. */
  #scheduleCheck(): void {
    const due = this.#clock.now() + QUIET_MAX
    this.#stopWatching ??= this.#clock.after(QUIET_MAX, () => {
      this.#stopWatching = null
      if (this.#outgoing.size === 0) return
      const now = this.#clock.now()
      const leftBytes = this.#leftBytesNow
      if (leftBytes > this.#leftBytes || now - due > LATE_TIMER_MIN) this.#aliveAt = now
      this.#leftBytes = leftBytes
      if (now - this.#aliveAt < SILENCE_MAX) {
        if (now - this.#aliveAt >= QUIET_MAX) this.#emit({ kind: 'quiet' })
        this.#scheduleCheck()
        return
      }
      this.#isSilent = true
      this.#updateUp()
      this.#emit({ kind: 'silent' })
    })
  }
}

/** Whether all of a message was given to channels. */
function isGiven({ message, sentBytes, lost }: Outgoing): boolean {
  return sentBytes === message.bytes.length && lost.length === 0
}
