import type { Cid, CidKey } from '../../content/index.ts'
import { SECOND, since, type Nanos } from '../time.ts'

const CIDS_MAX = 16 * 1024
/** Longest time that a block is left to those who were sent it. */
const HELD_MAX: Nanos = 3 * SECOND

/** What was sent lately, and how often. Beyond its bound, the oldest is forgotten. */
export class Sent {
  readonly #blocks = new Map<CidKey, { count: number; last: Nanos }>()
  /** Since when, and until when, blocks were sent that nobody had been sent before. */
  #fresh: { readonly from: Nanos; readonly until: Nanos } | null = null

  count({ key }: Cid): number {
    return this.#blocks.get(key)?.count ?? 0
  }

  add(now: Nanos, { key }: Cid): void {
    const times = this.#blocks.get(key)
    if (times !== undefined) {
      times.count++
      times.last = now
      return
    }
    const fresh = this.#fresh
    const isOn = fresh !== null && since(now, fresh.until) <= HELD_MAX
    this.#fresh = { from: isOn ? fresh.from : now, until: now }
    this.#blocks.set(key, { count: 1, last: now })
    if (this.#blocks.size <= CIDS_MAX) return
    const [oldest] = this.#blocks.keys()
    if (oldest !== undefined) this.#blocks.delete(oldest)
  }

  /**
   * Until when who has everything leaves a block to those who were sent it. While it still sends what nobody has, others
   * are about to hear that they can have the rest from one another: the longer that takes, the later.
   */
  heldUntil({ key }: Cid): Nanos | null {
    const times = this.#blocks.get(key)
    if (times === undefined || this.#fresh === null) return null
    const { from, until } = this.#fresh
    return Math.min(times.last, until) + Math.min(HELD_MAX, Math.floor(since(until, from) / 5))
  }
}
