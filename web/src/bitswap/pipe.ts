import type { Cid, CidKey } from '../content/index.ts'
import type { Nanos } from './time.ts'

/** Blocks in a pipe that are remembered. Beyond, the oldest may be sent twice to who asks twice. */
const CARRIED_MAX = 256

/** What carries our messages to a peer. */
export class Pipe {
  /** Bytes that it has room for. */
  room = 0
  /** The most that it ever had. */
  #roomMax = 0
  /** Bytes of messages with blocks in it, as far as its room tells. */
  #held = 0
  /** Those of them that are on their way to the peer: not what has stood still. */
  moving = 0
  /** Bytes of all messages with blocks that ever went into it. */
  #filled = 0
  /** Blocks in it, the oldest first, and `filled` with their message. */
  #carried: { readonly key: CidKey; readonly filled: number }[] = []
  /** Until then, only what is urgent is said. */
  quietUntil: Nanos
  /** When anything was said last. */
  spokenAt: Nanos
  /** Blocks that went into it, and their bytes. */
  blocksOut = 0
  bytesOut = 0

  constructor(now: Nanos) {
    this.quietUntil = now
    this.spokenAt = now
  }

  /** How much room there is now. The bytes that left it, of those that moved. */
  hasRoom(bytes: number): number {
    this.room = bytes
    this.#roomMax = Math.max(this.#roomMax, bytes)
    if (bytes === 0) return 0
    this.#held = Math.min(this.#held, this.#roomMax - bytes)
    const moving = Math.min(this.moving, this.#held)
    const left = this.moving - moving
    this.moving = moving
    const emptied = this.#filled - this.#held
    const still = this.#carried.findIndex(({ filled }) => filled > emptied)
    if (still !== 0) this.#carried.splice(0, still < 0 ? this.#carried.length : still)
    return left
  }

  /** A message with these blocks goes into it. */
  fill(messageBytes: number, blocks: readonly Cid[]): void {
    this.#held += messageBytes
    this.moving += messageBytes
    this.#filled += messageBytes
    for (const { key } of blocks) this.#carried.push({ key, filled: this.#filled })
    this.#carried.splice(0, Math.max(0, this.#carried.length - CARRIED_MAX))
  }

  /** Whether a block is on its way already. Who waits for a slow pipe asks again. */
  carries({ key }: Cid): boolean {
    return this.#carried.some((carried) => carried.key === key)
  }
}
