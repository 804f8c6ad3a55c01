import type { Cid } from '../../content/index.ts'
import type { Limits } from '../limits.ts'
import type { PeerId } from '../peer.ts'
import { SECOND, type Nanos } from '../time.ts'

/** The wait before the first search. Connected peers may still announce the block. */
const FIRST_SEARCH_AFTER: Nanos = SECOND
/** Providers that are remembered until they connect. Further ones are not remembered. */
const FOUND_PROVIDERS_MAX = 256

/** When to search for providers: when a block is missing for a while, and less often the longer nothing arrives. */
export class ProviderSearch {
  /** When to search, if a block is missing at that time. `null` during a search and while nothing is wanted. */
  #dueAt: Nanos | null = null
  #isUnderWay = false
  #rounds = 0
  /** Providers that a search found and that have not connected yet. */
  readonly #foundProviders = new Set<PeerId>()

  takeFoundProvider(peer: PeerId): boolean {
    return this.#foundProviders.delete(peer)
  }

  noteWanted(now: Nanos): void {
    if (!this.#isUnderWay) this.#dueAt ??= now + FIRST_SEARCH_AFTER
  }

  noteArrived(now: Nanos): void {
    this.#rounds = 0
    if (!this.#isUnderWay) this.#dueAt = now + FIRST_SEARCH_AFTER
  }

  /** Every peer sent DONT_HAVE for a wanted block. The first time, the search starts at once. */
  noteLackedByAll(now: Nanos): void {
    if (!this.#isUnderWay && this.#rounds === 0) this.#dueAt = now
  }

  handleResult(now: Nanos, peers: readonly PeerId[], limits: Limits): void {
    for (const peer of peers) if (this.#foundProviders.size < FOUND_PROVIDERS_MAX) this.#foundProviders.add(peer)
    this.#isUnderWay = false
    const wait = Math.min(limits.searchInterval * 2 ** Math.min(this.#rounds, 16), limits.searchIntervalMax)
    this.#rounds++
    this.#dueAt = now + wait
  }

  /** Starts a search if one is due. `lacked` returns a missing block, or `null` if there is none. */
  beginDue(now: Nanos, lacked: () => Cid | null): Cid | null {
    if (this.#dueAt === null || this.#dueAt > now) return null
    this.#dueAt = now + FIRST_SEARCH_AFTER
    const cid = lacked()
    if (cid !== null) {
      this.#dueAt = null
      this.#isUnderWay = true
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
