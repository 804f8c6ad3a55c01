import type { Cid } from '../../content/index.ts'

/**
 * Recently wanted blocks, so that a late answer does not count as unsolicited. When the set is full, the oldest entry
 * is forgotten.
 *
 * An entry is the beginning of the digest. It is the same for every codec and CID version, and no peer can choose it.
 */
export class RecentCids {
  readonly #digests = new Set<string>()
  readonly #namesMax: number

  constructor(namesMax: number) {
    this.#namesMax = namesMax
  }

  add(cid: Cid): void {
    const name = digestOf(cid)
    if (this.#digests.has(name)) return
    this.#digests.add(name)
    const [oldest] = this.#digests
    if (this.#digests.size > this.#namesMax && oldest !== undefined) this.#digests.delete(oldest)
  }

  has(cid: Cid): boolean {
    return this.#digests.has(digestOf(cid))
  }

  /** Removes a block. Returns whether it was in the set. */
  take(cid: Cid): boolean {
    return this.#digests.delete(digestOf(cid))
  }
}

function digestOf({ digest }: Cid): string {
  return String.fromCharCode(...digest.subarray(0, 8))
}
