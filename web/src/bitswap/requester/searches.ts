import type { Cid } from '../../content/index.ts'
import type { ExchangeLimits } from '../limits.ts'
import type { PeerId } from '../peer.ts'
import { SECOND, type Nanos } from '../time.ts'

/** The wait before the first search. Connected peers may still announce the block. */
const FIRST_SEARCH_DELAY: Nanos = SECOND
/** Providers that are remembered until they connect. Further ones are not remembered. */
const ANNOUNCED_MAX = 256

/** When to search for providers: when a block is missing for a while, and less often the longer nothing arrives. */
export class Searches {
  /** When to search, if a block is missing at that time. `null` during a search and while nothing is wanted. */
  #dueAt: Nanos | null = null
  #isRunning = false
  #rounds = 0
  /** Providers that a search found and that have not connected yet. */
  readonly #announced = new Set<PeerId>()

  takeAnnounced(peer: PeerId): boolean {
    return this.#announced.delete(peer)
  }

  noteWanted(now: Nanos): void {
    if (!this.#isRunning) this.#dueAt ??= now + FIRST_SEARCH_DELAY
  }

  noteArrived(now: Nanos): void {
    this.#rounds = 0
    if (!this.#isRunning) this.#dueAt = now + FIRST_SEARCH_DELAY
  }

  /** Every peer sent DONT_HAVE for a wanted block. The first time, the search starts at once. */
  noteLackedByAll(now: Nanos): void {
    if (!this.#isRunning && this.#rounds === 0) this.#dueAt = now
  }

  finish(now: Nanos, peers: readonly PeerId[], limits: ExchangeLimits): void {
    for (const peer of peers) if (this.#announced.size < ANNOUNCED_MAX) this.#announced.add(peer)
    this.#isRunning = false
    const wait = Math.min(limits.searchInterval * 2 ** Math.min(this.#rounds, 16), limits.searchIntervalMax)
    this.#rounds++
    this.#dueAt = now + wait
  }

  /** Starts a search if one is due. `lacked` returns a missing block, or `null` if there is none. */
  startIfDue(now: Nanos, lacked: () => Cid | null): Cid | null {
    if (this.#dueAt === null || this.#dueAt > now) return null
    this.#dueAt = now + FIRST_SEARCH_DELAY
    const cid = lacked()
    if (cid !== null) {
      this.#dueAt = null
      this.#isRunning = true
    }
    return cid
  }

  /** Nothing is wanted. */
  pause(): void {
    this.#dueAt = null
  }

  nextWake(): Nanos | null {
    return this.#dueAt
  }
}
