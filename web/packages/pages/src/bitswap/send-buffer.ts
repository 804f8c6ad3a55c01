import type { Cid, CidKey } from '../content/index.ts'
import { SECOND, since, type Nanos } from './time.ts'

/** Blocks on their way that are remembered. Older ones may be sent twice if the peer requests them twice. */
const BLOCKS_MAX = 256
/**
 * When nothing moves for this time, what left the buffer may be lost, and is sent again to a peer that requests it again.
 */
const UNACKNOWLEDGED_MAX: Nanos = 10 * SECOND

/** A block on its way to a peer. */
interface CarriedBlock {
  readonly key: CidKey
  /** The value of `#pushed` after its message. */
  readonly pushed: number
  /** The number of its message. */
  readonly message: number
}

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
  /** How many messages with blocks were ever added. */
  #messages = 0
  /** How many of these the peer has read. `null` if it does not say so. */
  #acknowledged: number | null = null
  /** The blocks on their way, the oldest first. */
  readonly #blocks: CarriedBlock[] = []
  /** When a message with blocks was last added, left the buffer, or was acknowledged. */
  #movedAt: Nanos
  /** Until when messages that are not urgent are delayed. */
  delayedUntil: Nanos
  /** When the last message was added. */
  messageSentAt: Nanos
  /** Bytes of the blocks that were added. */
  bytesOut = 0

  constructor(now: Nanos) {
    this.delayedUntil = now
    this.messageSentAt = now
    this.#movedAt = now
  }

  /** Sets the free room. Returns how many moving bytes have left. */
  setRoom(now: Nanos, bytes: number): number {
    this.room = bytes
    this.#roomMax = Math.max(this.#roomMax, bytes)
    if (bytes === 0) return 0
    this.#held = Math.min(this.#held, this.#roomMax - bytes)
    const moving = Math.min(this.moving, this.#held)
    const left = this.moving - moving
    this.moving = moving
    if (left > 0) this.#movedAt = now
    this.#forgetArrived()
    return left
  }

  /** Adds a message with these blocks. */
  push(now: Nanos, messageBytes: number, blocks: readonly Cid[]): void {
    this.#held += messageBytes
    this.moving += messageBytes
    this.#pushed += messageBytes
    this.#messages++
    this.#movedAt = now
    for (const { key } of blocks) this.#blocks.push({ key, pushed: this.#pushed, message: this.#messages })
    this.#blocks.splice(0, Math.max(0, this.#blocks.length - BLOCKS_MAX))
  }

  /** The peer has read this many messages with blocks. Earlier ones that it has not read are lost. */
  acknowledge(now: Nanos, messages: number): void {
    const before = this.#acknowledged ?? 0
    if (messages > before) this.#movedAt = now
    this.#acknowledged = Math.max(before, messages)
    this.#forgetArrived()
  }

  /**
   * Whether a block is on its way already: a peer requests it again whose first request crossed it, or that is behind a slow
   * connection.
   */
  hasBlock(now: Nanos, { key }: Cid): boolean {
    const mayBeLost = since(now, this.#movedAt) >= UNACKNOWLEDGED_MAX
    return this.#blocks.some((carried) => carried.key === key && (carried.pushed > this.#emptied || !mayBeLost))
  }

  get #emptied(): number {
    return this.#pushed - this.#held
  }

  #forgetArrived(): void {
    const acknowledged = this.#acknowledged ?? Infinity
    const still = this.#blocks.findIndex(({ pushed, message }) => pushed > this.#emptied || message > acknowledged)
    if (still !== 0) this.#blocks.splice(0, still < 0 ? this.#blocks.length : still)
  }
}
