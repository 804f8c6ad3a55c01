import { MESSAGE_BYTES_MAX } from '../bitswap/index.ts'
import { concat, type Bytes } from '../content/index.ts'
import type { Millis } from './clock.ts'
import type { Segment } from './segment.ts'

/** Incomplete messages of one peer. When the limit is reached, the one that has waited longest is dropped. */
const MESSAGES_MAX = 4
/** Parts of one message. An honest peer never sends more. */
const SEGMENTS_MAX = 512
/** A message that gets no part for this long is dropped. */
const IDLE_MAX: Millis = 30_000

/**
 * Bytes of incomplete messages of all peers of a page. When the limit is reached, the message of the next segment is
 * dropped.
 */
export interface AssemblyBudget {
  readonly bytesMax: number
  bytes: number
}

/**
 * The whole message, or the reason why there is none yet. `malformed`: no honest peer sends this. `dropped`: there was no room for the
 * message, and its blocks will be requested again.
 */
export type Assembled = Bytes | 'partial' | 'malformed' | 'dropped'

interface Unfinished {
  readonly total: number
  readonly segments: Map<number, Bytes>
  bytes: number
  grewAt: Millis
}

/** Assembles one peer's messages from segments, which may arrive in any order and more than once. */
export class Assembler {
  readonly #budget: AssemblyBudget
  readonly #messages = new Map<number, Unfinished>()

  constructor(budget: AssemblyBudget) {
    this.#budget = budget
  }

  add(now: Millis, { message, offset, total, bytes }: Segment): Assembled {
    this.#forgetIdle(now)
    if (total === 0 || total > MESSAGE_BYTES_MAX || bytes.length === 0 || offset + bytes.length > total) return 'malformed'
    if (bytes.length === total) return bytes
    const unfinished = this.#messages.get(message) ?? this.#begin(message, total, now)
    if (unfinished.total !== total) return 'malformed'
    const before = unfinished.segments.get(offset)
    if (before !== undefined) return before.length === bytes.length ? 'partial' : 'malformed'
    if (unfinished.segments.size >= SEGMENTS_MAX || unfinished.bytes + bytes.length > total) return 'malformed'
    if (this.#budget.bytes + bytes.length > this.#budget.bytesMax) {
      this.#forget(message)
      return 'dropped'
    }
    unfinished.segments.set(offset, bytes)
    unfinished.bytes += bytes.length
    unfinished.grewAt = now
    this.#budget.bytes += bytes.length
    return unfinished.bytes === total ? this.#finish(message, unfinished) : 'partial'
  }

  /** Drops all incomplete messages. */
  clear(): void {
    for (const message of [...this.#messages.keys()]) this.#forget(message)
  }

  #begin(message: number, total: number, now: Millis): Unfinished {
    if (this.#messages.size >= MESSAGES_MAX) {
      const [longest] = [...this.#messages].sort(([, a], [, b]) => a.grewAt - b.grewAt)
      if (longest !== undefined) this.#forget(longest[0])
    }
    const unfinished = { total, segments: new Map<number, Bytes>(), bytes: 0, grewAt: now }
    this.#messages.set(message, unfinished)
    return unfinished
  }

  #finish(message: number, { segments }: Unfinished): Assembled {
    this.#forget(message)
    const inOrder = [...segments].sort(([a], [b]) => a - b)
    let end = 0
    for (const [offset, bytes] of inOrder) {
      if (offset !== end) return 'malformed'
      end += bytes.length
    }
    return concat(inOrder.map(([, bytes]) => bytes))
  }

  #forgetIdle(now: Millis): void {
    for (const [message, { grewAt }] of this.#messages) if (now - grewAt > IDLE_MAX) this.#forget(message)
  }

  #forget(message: number): void {
    this.#budget.bytes -= this.#messages.get(message)?.bytes ?? 0
    this.#messages.delete(message)
  }
}
