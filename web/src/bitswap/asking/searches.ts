import type { Cid } from '../../content/index.ts'
import type { ExchangeLimits } from '../limits.ts'
import type { PeerId } from '../peer.ts'
import { SECOND, type Nanos } from '../time.ts'

/** Wait before the first search: peers that are connected may still say that they have it. */
const FIRST: Nanos = SECOND
/** Providers remembered until they connect; more are not. */
const PROMISED_MAX = 256

/** When to look for providers: when something was missed for a while, and ever less often while nothing arrives. */
export class Searches {
  /** When to look, if something is missed then; `null` while a search is under way or nothing is wanted. */
  #dueAt: Nanos | null = null
  #isUnderWay = false
  #rounds = 0
  /** Providers that were named and were not asked yet. */
  readonly #promised = new Set<PeerId>()

  isPromised(peer: PeerId): boolean {
    return this.#promised.delete(peer)
  }

  wanted(now: Nanos): void {
    if (!this.#isUnderWay) this.#dueAt ??= now + FIRST
  }

  arrived(now: Nanos): void {
    this.#rounds = 0
    if (!this.#isUnderWay) this.#dueAt = now + FIRST
  }

  /** Every peer said that it has not got something; there is nothing to wait for, the first time. */
  isLackedByAll(now: Nanos): void {
    if (!this.#isUnderWay && this.#rounds === 0) this.#dueAt = now
  }

  ended(now: Nanos, peers: readonly PeerId[], limits: ExchangeLimits): void {
    for (const peer of peers) if (this.#promised.size < PROMISED_MAX) this.#promised.add(peer)
    this.#isUnderWay = false
    const wait = Math.min(limits.searchInterval * 2 ** Math.min(this.#rounds, 16), limits.searchIntervalMax)
    this.#rounds++
    this.#dueAt = now + wait
  }

  /** Begins a search that is due, for what `lacked` says is missed. */
  due(now: Nanos, lacked: () => Cid | null): Cid | null {
    if (this.#dueAt === null || this.#dueAt > now) return null
    this.#dueAt = now + FIRST
    const cid = lacked()
    if (cid !== null) {
      this.#dueAt = null
      this.#isUnderWay = true
    }
    return cid
  }

  /** Who wants nothing has nothing to wake up for. */
  rest(): void {
    this.#dueAt = null
  }

  nextWake(): Nanos | null {
    return this.#dueAt
  }
}
