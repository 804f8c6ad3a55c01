import type { Millis } from '../clock.ts'
import type { Bytes } from '../../content/index.ts'
import { encodeReceiptFrame, encodeSegmentFrame, PART_BYTES_MAX } from './frame.ts'
import type { DataChannel } from './rtc-interfaces.ts'
import type { SendWindow } from './send-window.ts'

/** Bytes that the browser may buffer for a channel. */
const BUFFERED_BYTES_MAX = 1 << 20
/** A receiver takes no more than 512 parts of a message. */
const PARTS_MAX = 256

/** A part of a message that was given to a channel. */
export interface Part {
  readonly message: number
  readonly from: number
  readonly to: number
}

/** One data channel of a direct path, with the window that bounds what is under way on it. */
export class Lane {
  readonly channel: DataChannel
  /** `null` if the other side sends no receipts. */
  readonly window: SendWindow | null
  /** Bytes that the channel was given. */
  givenBytes = 0
  /** Bytes of all frames that arrived. */
  #arrivedBytes = 0
  /** The parts without a receipt, and where each ends in all bytes of the channel. Bounded by the window. */
  readonly #unconfirmed: (Part & { readonly end: number })[] = []

  constructor(channel: DataChannel, window: SendWindow | null) {
    this.channel = channel
    this.window = window
  }

  /** Whether the browser takes no more for now. */
  get isFull(): boolean {
    return this.channel.bufferedAmount >= BUFFERED_BYTES_MAX
  }

  /** The longest part of a message of this length. */
  partBytesMax(messageBytes: number): number {
    if (this.window === null) return PART_BYTES_MAX
    return Math.floor(Math.min(PART_BYTES_MAX, Math.max(this.window.frameBytes, messageBytes / PARTS_MAX)))
  }

  /** Sends a part of a message. Returns whether the channel took it. */
  sendPart(now: Millis, { message, from, to }: Part, whole: Bytes): boolean {
    const bytes = whole.subarray(from, to)
    const isMarked = this.window?.asksFor(bytes.length) ?? false
    const segment = { message, offset: from, total: whole.length, bytes }
    if (!this.send(now, encodeSegmentFrame(segment, isMarked), isMarked)) return false
    if (this.window !== null) this.#unconfirmed.push({ message, from, to, end: this.givenBytes })
    return true
  }

  /** Sends a frame. Returns whether the channel took it. */
  send(now: Millis, frame: Bytes, isMarked = false): boolean {
    try {
      this.channel.send(frame)
    } catch {
      // The channel is closing or full. In both cases it is of no use any more.
      return false
    }
    this.givenBytes += frame.length
    this.window?.handleSent(now, frame.length, isMarked)
    return true
  }

  noteArrived(bytes: number): void {
    this.#arrivedBytes += bytes
  }

  /** The receipt for what has arrived. */
  receipt(): Bytes {
    return encodeReceiptFrame(this.#arrivedBytes)
  }

  /** Returns whether an honest peer sends this receipt. */
  handleReceipt(now: Millis, bytes: number): boolean {
    const rest = this.#unconfirmed.findIndex(({ end }) => end > bytes)
    this.#unconfirmed.splice(0, rest === -1 ? this.#unconfirmed.length : rest)
    return this.window?.handleReceipt(now, bytes) ?? false
  }

  /** Takes the parts that may not have arrived. */
  takeUnconfirmed(): Part[] {
    return this.#unconfirmed.splice(0)
  }
}
