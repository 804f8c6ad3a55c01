import type { Cid } from '../../content/index.ts'
import { RecentSet } from '../recent-set.ts'

/**
 * Recently wanted blocks, so that a late answer does not count as unsolicited. When the set is full, the oldest entry
 * is forgotten.
 *
 * An entry is the beginning of the digest. It is the same for every codec and CID version, and no peer can choose it.
 */
export class RecentCids {
  readonly #prefixes: RecentSet<string>

  constructor(lengthMax: number) {
    this.#prefixes = new RecentSet(lengthMax)
  }

  add(cid: Cid): void {
    this.#prefixes.add(hashPrefix(cid))
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
