import type { Cid, CidKey } from '../../content/index.ts'
import { SECOND, since, type Nanos } from '../time.ts'

const CIDS_MAX = 16 * 1024
/** Longest time that a block is left to those who were sent it. */
const HELD_MAX: Nanos = 3 * SECOND
/** Longest time between two blocks that nobody was sent, at least, until it is over that there are such. */
const PAUSE_MAX: Nanos = SECOND / 2
/** Blocks that were sent again before nothing is left to others any more. */
const AGAIN_MIN = 32
/** Fates of wants from which is learned whether others serve them. Beyond, those before count half. */
const FATES_MAX = 256

/** What was sent lately, and how often. Beyond its bound, the oldest is forgotten. */
export class Sent {
  readonly #blocks = new Map<CidKey, { count: number; last: Nanos }>()
  /** Since when, and until when, blocks were sent that nobody had been sent before. */
  #fresh: { readonly from: Nanos; readonly until: Nanos } | null = null
  /** Of wants for what others had been sent, those taken back while they waited: who wanted it had it of others. */
  #hadElsewhere = 0
  /** Those of them for which it had to be sent again. */
  #sentAgain = 0

  count({ key }: Cid): number {
    return this.#blocks.get(key)?.count ?? 0
  }

  add(now: Nanos, { key }: Cid): void {
    const times = this.#blocks.get(key)
    if (times !== undefined) {
      times.count++
      times.last = now
      this.#sentAgain++
      this.#age()
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
   * are about to hear that they can have the rest from one another: the longer that takes, the later. Where they do,
   * there is no hurry as long as it goes on.
   */
  heldUntil({ key }: Cid): Nanos | null {
    const times = this.#blocks.get(key)
    if (times === undefined || this.#fresh === null) return null
    const { from, until } = this.#fresh
    const fresh = since(until, from)
    const usual = Math.min(times.last, until) + Math.min(HELD_MAX, Math.floor(fresh / 5))
    if (this.#hadElsewhere > Math.floor(this.#sentAgain / 8)) {
      const goesOn = until + Math.max(Math.floor(fresh / 8), Math.min(PAUSE_MAX, fresh))
      return Math.max(usual, Math.min(times.last + HELD_MAX, goesOn))
    }
    return this.#sentAgain < AGAIN_MIN ? usual : null
  }

  /** A block that waited to be sent is not wanted any more. */
  takenBack({ key }: Cid): void {
    if (!this.#blocks.has(key)) return
    this.#hadElsewhere++
    this.#age()
  }

  #age(): void {
    if (this.#hadElsewhere + this.#sentAgain <= FATES_MAX) return
    this.#hadElsewhere = Math.floor(this.#hadElsewhere / 2)
    this.#sentAgain = Math.floor(this.#sentAgain / 2)
  }
}
