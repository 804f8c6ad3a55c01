import type { Cid, CidKey } from '../content/index.ts'
import type { Nanos } from './time.ts'

/** Blocks in the buffer that are remembered. Older ones may be sent twice if the peer requests them twice. */
const BLOCKS_MAX = 256

/** The send buffer of one peer, as far as its driver reports it. */
export class SendBuffer {
  /** Free room in bytes. */
  room = 0
  /** The most room that there ever was. */
  #roomMax = 0
  /** Bytes of messages with blocks in the buffer. */
  #held = 0
  /** Bytes of these that are moving. Bytes of a stuck buffer do not count. */
  moving = 0
  /** Bytes of all messages with blocks that were ever added. */
  #pushed = 0
  /** The blocks in the buffer, the oldest first, with the value of `#pushed` after their message. */
  #blocks: { readonly key: CidKey; readonly filled: number }[] = []
  /** Until when messages that are not urgent are delayed. */
  delayedUntil: Nanos
  /** When the last message was added. */
  messageSentAt: Nanos
  /** Blocks that were added, and their bytes. */
  blocksOut = 0
  bytesOut = 0

  constructor(now: Nanos) {
    this.delayedUntil = now
    this.messageSentAt = now
  }

  /** Sets the free room. Returns how many moving bytes have left. */
  setRoom(bytes: number): number {
    this.room = bytes
    this.#roomMax = Math.max(this.#roomMax, bytes)
    if (bytes === 0) return 0
    this.#held = Math.min(this.#held, this.#roomMax - bytes)
    const moving = Math.min(this.moving, this.#held)
    const left = this.moving - moving
    this.moving = moving
    const emptied = this.#pushed - this.#held
    const still = this.#blocks.findIndex(({ filled }) => filled > emptied)
    if (still !== 0) this.#blocks.splice(0, still < 0 ? this.#blocks.length : still)
    return left
  }

  /** Adds a message with these blocks. */
  push(messageBytes: number, blocks: readonly Cid[]): void {
    this.#held += messageBytes
    this.moving += messageBytes
    this.#pushed += messageBytes
    for (const { key } of blocks) this.#blocks.push({ key, filled: this.#pushed })
    this.#blocks.splice(0, Math.max(0, this.#blocks.length - BLOCKS_MAX))
  }

  /** Whether a block is in the buffer. A peer on a slow connection may request it again. */
  hasBlock({ key }: Cid): boolean {
    return this.#blocks.some((carried) => carried.key === key)
  }
}
