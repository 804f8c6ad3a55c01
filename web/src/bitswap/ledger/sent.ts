import type { Cid, CidKey } from '../../content/index.ts'

const CIDS_MAX = 16 * 1024

/** How often each block was sent lately. Beyond its bound, the oldest is forgotten. */
export class SentCounts {
  readonly #counts = new Map<CidKey, number>()

  of({ key }: Cid): number {
    return this.#counts.get(key) ?? 0
  }

  add({ key }: Cid): void {
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    if (this.#counts.size <= CIDS_MAX) return
    const [oldest] = this.#counts.keys()
    if (oldest !== undefined) this.#counts.delete(oldest)
  }
}
