import type { Cid, CidKey } from '../content/index.ts'
import type { Nanos } from './time.ts'

/** Blocks in the buffer that are remembered. Older ones may be sent twice if the peer requests them twice. */
const BLOCKS_MAX = 256

/** The send buffer of one peer, as far as its driver reports it. */
export class SendBuffer {
  /** Free room in bytes. */
  roomBytes = 0
  /** The most room that there ever was. */
  #roomBytesMax = 0
  /** Bytes of messages with blocks in the buffer. */
  #heldBytes = 0
  /** Bytes of these that are moving. Bytes of a stuck buffer do not count. */
  movingBytes = 0
  /** Bytes of all messages with blocks that were ever added. */
  #addedBytes = 0
  /** The blocks in the buffer, the oldest first, with the value of `#addedBytes` after their message. */
  #blocks: { readonly key: CidKey; readonly filled: number }[] = []
  /** Until when messages that are not urgent are delayed. */
  quietUntil: Nanos
  /** When the last message was added. */
  sentAt: Nanos
  /** Blocks that were added, and their bytes. */
  blocksOut = 0
  bytesOut = 0

  constructor(now: Nanos) {
    this.quietUntil = now
    this.sentAt = now
  }

  /** Sets the free room. Returns how many moving bytes have left. */
  setRoom(bytes: number): number {
    this.roomBytes = bytes
    this.#roomBytesMax = Math.max(this.#roomBytesMax, bytes)
    if (bytes === 0) return 0
    this.#heldBytes = Math.min(this.#heldBytes, this.#roomBytesMax - bytes)
    const moving = Math.min(this.movingBytes, this.#heldBytes)
    const left = this.movingBytes - moving
    this.movingBytes = moving
    const emptied = this.#addedBytes - this.#heldBytes
    const still = this.#blocks.findIndex(({ filled }) => filled > emptied)
    if (still !== 0) this.#blocks.splice(0, still < 0 ? this.#blocks.length : still)
    return left
  }

  /** Adds a message with these blocks. */
  add(messageBytes: number, blocks: readonly Cid[]): void {
    this.#heldBytes += messageBytes
    this.movingBytes += messageBytes
    this.#addedBytes += messageBytes
    for (const { key } of blocks) this.#blocks.push({ key, filled: this.#addedBytes })
    this.#blocks.splice(0, Math.max(0, this.#blocks.length - BLOCKS_MAX))
  }

  /** Whether a block is in the buffer. A peer on a slow connection may request it again. */
  holds({ key }: Cid): boolean {
    return this.#blocks.some((carried) => carried.key === key)
  }
}
