import type { Cid, CidKey } from '../../content/index.ts'
import { SECOND, since, type Nanos } from '../time.ts'

const CIDS_MAX = 16 * 1024
/** The longest time for which a block is left to the peers that have it. */
const HOLD_BACK_MAX: Nanos = 3 * SECOND
/** The shortest pause in sending new blocks that ends the phase of new blocks. */
const PAUSE_MAX: Nanos = SECOND / 2
/** Blocks sent again before no block is left to others any more. */
const RESENT_MIN = 32
/** Outcomes of wants that are remembered. Older ones then count half. */
const OUTCOMES_MAX = 256

/** The number of times that each block was sent recently. When the limit is reached, the oldest entry is forgotten. */
export class SentBlocks {
  readonly #blocks = new Map<CidKey, { count: number; last: Nanos }>()
  /** The start and end of the phase in which blocks were sent that no peer had been sent before. */
  #fresh: { readonly from: Nanos; readonly until: Nanos } | null = null
  /**
   * Wants that were cancelled while they waited, for blocks that other peers had been sent. They got the block from
   * another peer.
   */
  #cancelled = 0
  /** Wants for which such a block had to be sent again. */
  #resent = 0

  count({ key }: Cid): number {
    return this.#blocks.get(key)?.count ?? 0
  }

  add(now: Nanos, { key }: Cid): void {
    const times = this.#blocks.get(key)
    if (times !== undefined) {
      times.count++
      times.last = now
      this.#resent++
      this.#age()
      return
    }
    const fresh = this.#fresh
    const isOn = fresh !== null && since(now, fresh.until) <= HOLD_BACK_MAX
    this.#fresh = { from: isOn ? fresh.from : now, until: now }
    this.#blocks.set(key, { count: 1, last: now })
    if (this.#blocks.size <= CIDS_MAX) return
    const [oldest] = this.#blocks.keys()
    if (oldest !== undefined) this.#blocks.delete(oldest)
  }

  /**
   * Until when a seeder leaves a block to the peers that have it. `null` if it does not. While it sends new blocks, its
   * peers are about to learn what they can get from each other. The longer that phase, the longer the wait. If peers do
   * serve each other, the wait lasts as long as the phase.
   */
  heldBackUntil({ key }: Cid): Nanos | null {
    const times = this.#blocks.get(key)
    if (times === undefined || this.#fresh === null) return null
    const { from, until } = this.#fresh
    const fresh = since(until, from)
    const usual = Math.min(times.last, until) + Math.min(HOLD_BACK_MAX, Math.floor(fresh / 5))
    if (this.#cancelled > Math.floor(this.#resent / 8)) {
      const goesOn = until + Math.max(Math.floor(fresh / 8), Math.min(PAUSE_MAX, fresh))
      return Math.max(usual, Math.min(times.last + HOLD_BACK_MAX, goesOn))
    }
    return this.#resent < RESENT_MIN ? usual : null
  }

  /** A queued block is not wanted any more. */
  noteCancelled({ key }: Cid): void {
    if (!this.#blocks.has(key)) return
    this.#cancelled++
    this.#age()
  }

  #age(): void {
    if (this.#cancelled + this.#resent <= OUTCOMES_MAX) return
    this.#cancelled = Math.floor(this.#cancelled / 2)
    this.#resent = Math.floor(this.#resent / 2)
  }
}
