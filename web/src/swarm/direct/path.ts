import type { Bytes } from '../../content/index.ts'
import type { Clock, Millis } from '../api.ts'
import type { Unread, Way } from '../two-way-peer.ts'
import { RecentNumbers } from '../recent-numbers.ts'
import { isShort, nextToGo, type Segment } from '../segment.ts'
import { decodeFrame, encodeReadFrame, encodeSegmentFrame, PART_BYTES_MAX } from './frame.ts'
import type { DataChannel } from './line.ts'

/** Bytes that the browser may hold for the channel: no more are given it until it has only the lesser number. */
const BUFFERED_BYTES_MAX = 1 << 20
const BUFFERED_BYTES_LOW = 256 << 10
/** Messages, and their bytes, that the other side may have left unread. The short ones have a few places more. */
const UNREAD_MAX = 8
const UNREAD_BYTES_MAX = 4 << 20
const UNREAD_SHORT_MAX = 12
/** Messages remembered as given whole and taken back: more than may be unread at once, over a few breaks. */
const TAKEN_BACK_REMEMBERED = 64
/** How long a path may take all we send and give no sign that it arrives. */
const SILENCE_MAX: Millis = 4000
/** A timer that rings so late tells that this tab was held up: what the other side said meanwhile waits behind it. */
const LATE: Millis = 500

export interface PathEvents {
  /** It can be used from now on; again, after a pause. */
  readonly up: () => void
  /** Whoever uses it should look for another way. */
  readonly down: () => void
  readonly segment: (segment: Segment) => void
  /** Something came that no honest peer sends. */
  readonly malformed: () => void
  /** It took what we sent, and nothing came of it. It is up again when anything comes. */
  readonly silent: () => void
  /** It takes nothing any more. */
  readonly broken: () => void
}

interface Outgoing {
  readonly id: number
  readonly message: Bytes
  /** How much of it the channel has. */
  given: number
  resolve: () => void
  reject: (reason: Error) => void
}

/** Messages over a data channel. Each is kept until the other side has read it, for the case that the path breaks. */
export class DirectPath implements Way {
  readonly #channel: DataChannel
  readonly #clock: Clock
  readonly #events: PathEvents
  /** In the order of their numbers. */
  readonly #outgoing = new Map<number, Outgoing>()
  /** What the other side may have, though it was taken back when the line broke; it may be given anew when that holds again. */
  readonly #takenBack = new RecentNumbers(TAKEN_BACK_REMEMBERED)
  #isLinked = false
  #isOver = false
  #isSilent = false
  #isUp = false
  #givenBytes = 0
  /** Bytes that had left the browser when it was last looked at. */
  #leftBytes = 0
  #aliveAt: Millis = 0
  /** When anything last moved, either way. */
  movedAt: Millis
  #stopWatching: (() => void) | null = null

  constructor(channel: DataChannel, clock: Clock, events: PathEvents) {
    this.#channel = channel
    this.#clock = clock
    this.#events = events
    this.movedAt = clock.now()
    channel.binaryType = 'arraybuffer'
    channel.bufferedAmountLowThreshold = BUFFERED_BYTES_LOW
    channel.addEventListener('open', () => this.#follow())
    channel.addEventListener('close', () => this.close())
    channel.addEventListener('bufferedamountlow', () => this.#pump())
    channel.addEventListener('message', (event) => this.#hear((event as MessageEvent<unknown>).data))
  }

  /** Whether messages may be given to it. */
  get isUp(): boolean {
    return this.#isUp
  }

  get isBusy(): boolean {
    return this.#outgoing.size > 0
  }

  /** Whether it is waited for a sign of the other side, which may only be busy. */
  get isSilent(): boolean {
    return this.#isSilent
  }

  /** The line under it holds, or does not for now. */
  setLinked(isLinked: boolean): void {
    this.#isLinked = isLinked
    this.#follow()
  }

  /** Resolves when the browser has all of it; which does not mean that it arrived, see `takeBack`. */
  send(id: number, message: Bytes): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#outgoing.size === 0) this.#aliveAt = this.#clock.now()
      this.#outgoing.set(id, { id, message, given: 0, resolve, reject })
      this.#pump()
      this.#watch()
    })
  }

  /** Tells the other side that a message of its was read. */
  tellRead(id: number): void {
    if (this.#channel.readyState === 'open') this.#give(encodeReadFrame(id))
  }

  /** Everything that the other side has not read, as far as we know: it is for another way to carry now. */
  takeBack(): Unread[] {
    const unread = [...this.#outgoing.values()]
    for (const { id, message, given } of unread) if (given === message.length) this.#takenBack.add(id)
    this.#outgoing.clear()
    this.#stopWatching?.()
    this.#stopWatching = null
    return unread
  }

  close(): void {
    this.#isOver = true
    this.#follow()
    // Whoever used it has taken back what there was; else nobody will carry it.
    for (const { reject } of this.takeBack()) reject(new Error('the path is closed'))
  }

  #follow(): void {
    const isUp = this.#isLinked && !this.#isOver && !this.#isSilent && this.#channel.readyState === 'open'
    if (isUp === this.#isUp) return
    this.#isUp = isUp
    if (isUp) this.#events.up()
    else this.#events.down()
  }

  #pump(): void {
    while (this.#isUp && this.#channel.bufferedAmount < BUFFERED_BYTES_MAX) {
      const next = this.#next()
      if (next === null) return
      const { id, message, given } = next
      const bytes = message.subarray(given, given + PART_BYTES_MAX)
      const segment = { message: id, offset: given, total: message.length, bytes }
      if (!this.#give(encodeSegmentFrame(segment))) return
      next.given += bytes.length
      if (next.given === message.length) next.resolve()
    }
  }

  #next(): Outgoing | null {
    const outgoing = [...this.#outgoing.values()]
    const begun = outgoing.filter(({ given }) => given > 0)
    const begunBytes = begun.reduce((sum, { message }) => sum + message.length, 0)
    const hasRoom = (message: Bytes) =>
      isShort(message) ? begun.length < UNREAD_SHORT_MAX : begun.length < UNREAD_MAX && begunBytes < UNREAD_BYTES_MAX
    return nextToGo(outgoing.filter(({ message, given }) => given < message.length && (given > 0 || hasRoom(message))))
  }

  #give(frame: Bytes): boolean {
    try {
      this.#channel.send(frame)
    } catch {
      // It closes, or is full beyond all we gave it: either way it is of no use any more.
      this.#events.broken()
      return false
    }
    this.#givenBytes += frame.length
    this.movedAt = this.#clock.now()
    return true
  }

  #hear(data: unknown): void {
    if (this.#isOver) return
    this.#aliveAt = this.movedAt = this.#clock.now()
    this.#isSilent = false
    this.#follow()
    const frame = decodeFrame(data)
    if (frame === null) this.#events.malformed()
    else if (frame.kind === 'segment') this.#events.segment(frame.segment)
    else if (this.#outgoing.has(frame.message)) this.#handleRead(frame.message)
  }

  #handleRead(id: number): void {
    const { message, given, resolve } = this.#outgoing.get(id) ?? { message: { length: 0 }, given: 0, resolve: () => {} }
    // Nobody has read what was not sent, on this line before it broke or now.
    if (given < message.length && !this.#takenBack.has(id)) {
      this.#events.malformed()
      return
    }
    this.#outgoing.delete(id)
    resolve()
    this.#pump()
  }

  /** Looks now and then whether anything comes of what we send. */
  #watch(): void {
    const due = this.#clock.now() + SILENCE_MAX / 2
    this.#stopWatching ??= this.#clock.after(SILENCE_MAX / 2, () => {
      this.#stopWatching = null
      if (this.#outgoing.size === 0) return
      const now = this.#clock.now()
      const leftBytes = this.#givenBytes - this.#channel.bufferedAmount
      if (leftBytes > this.#leftBytes || now - due > LATE) this.#aliveAt = now
      this.#leftBytes = leftBytes
      if (now - this.#aliveAt < SILENCE_MAX) {
        this.#watch()
        return
      }
      this.#isSilent = true
      this.#follow()
      this.#events.silent()
    })
  }
}
