import { multiplyDivide, since, type Nanos } from '../time.ts'
import type { Asking } from './asking.ts'
import type { View } from './view.ts'

/** A peer is slow if it delivers so many times slower than a byte usually comes, and a block of it takes a second or longer. */
const SLOWER = 4
/**
 * Part of what all may be asked for that slow peers may be asked for though others have it, if what they deliver is no
 * larger part of all. It takes long to come: otherwise it would be all there is after a while, and nobody asked who could
 * send at once.
 */
const SLOW_PART = 8
/** So many times the usual patience, slow peers are left out though nothing comes of others. */
const PATIENCE = 10

/** How much all peers together are asked for, and what part of it those may be asked for who are slow. */
export class Budget {
  readonly #asking: Asking
  /** Of the rates at which peers deliver. */
  #sum = 0
  #squares = 0
  /** Of those of the slow ones. */
  #slowSum = 0
  /** What slow peers are asked for. */
  #slowBytes = 0

  constructor(asking: Asking) {
    this.#asking = asking
    for (const { pace, silentUntil } of asking.views.values()) {
      if (silentUntil !== null) continue
      this.#sum += pace.rate
      this.#squares += pace.rate * pace.rate
    }
    for (const view of asking.views.values()) {
      if (view.silentUntil !== null) continue
      if (this.#isSlow(view)) this.#slowSum += view.pace.rate
      this.ask(view, view.askedBytes)
    }
  }

  /**
   * Whether no more is to be asked for of a peer. More than what arrives in two round trips would only wait in line, and be
   * decided too early; what slow peers are asked for keeps no other waiting.
   */
  isSpent(view: View): boolean {
    const { askedBytes, limits, windowBytes } = this.#asking
    const counted = this.#isSlow(view) ? askedBytes : askedBytes - this.#slowBytes
    return counted >= windowBytes || askedBytes >= limits.askedBytesMax
  }

  /**
   * Whether a block is not to be asked for of a peer, since it is slow and another has it too. Not for long, if nothing comes
   * of those others.
   */
  isForOthers(now: Nanos, view: View, at: number): boolean {
    const { lastBlockAt, limits, wants, windowBytes } = this.#asking
    const isAnyUse = since(now, lastBlockAt) < limits.patience * PATIENCE
    if (wants.get(at).holders < 2 || !isAnyUse || !this.#isSlow(view)) return false
    const window = Math.min(windowBytes, limits.askedBytesMax)
    const part = multiplyDivide(window, Math.min(this.#slowSum, this.#sum), Math.max(1, this.#sum))
    return this.#slowBytes >= Math.max(part, Math.floor(window / SLOW_PART))
  }

  ask(view: View, bytes: number): void {
    if (this.#isSlow(view)) this.#slowBytes += bytes
  }

  /** The mean is that over bytes, not over peers. Of whom nothing is known yet is not held to be slow. */
  #isSlow({ pace: { rate } }: View): boolean {
    return rate > 0 && rate < this.#asking.blockBytes && rate * SLOWER * this.#sum < this.#squares
  }
}
