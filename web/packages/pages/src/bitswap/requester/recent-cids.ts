import type { Cid } from '../../content/index.ts'

/**
 * Recently wanted blocks, so that a late answer does not count as unsolicited. When the set is full, the oldest entry
 * is forgotten.
 *
 * An entry is the beginning of the digest. It is the same for every codec and CID version, and no peer can choose it.
 */
export class RecentCids {
  readonly #prefixes = new Set<string>()
  readonly #lengthMax: number

  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax
  }

  add(cid: Cid): void {
    const name = hashPrefix(cid)
    if (this.#prefixes.has(name)) return
    this.#prefixes.add(name)
    const [oldest] = this.#prefixes
    if (this.#prefixes.size > this.#lengthMax && oldest !== undefined) this.#prefixes.delete(oldest)
  }

  has(cid: Cid): boolean {
    return this.#prefixes.has(hashPrefix(cid))
  }

  /** Removes a block. Returns whether it was in the set. */
  take(cid: Cid): boolean {
    return this.#prefixes.delete(hashPrefix(cid))
  }
}

function hashPrefix({ digest }: Cid): string {
  return String.fromCharCode(...digest.subarray(0, 8))
}
