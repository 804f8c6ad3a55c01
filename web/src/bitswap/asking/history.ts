import type { Cid } from '../../content/index.ts'

/**
 * What was wanted until lately: so that an answer that comes too late is not taken for a lie. Beyond its bound the oldest
 * is forgotten.
 *
 * Remembered are the first bytes of each hash, which are the same whatever codec and version a block is called by, and
 * which nobody can make up at will.
 */
export class History {
  readonly #names = new Set<string>()
  readonly #namesMax: number

  constructor(namesMax: number) {
    this.#namesMax = namesMax
  }

  add(cid: Cid): void {
    const name = nameOf(cid)
    if (this.#names.has(name)) return
    this.#names.add(name)
    const [oldest] = this.#names
    if (this.#names.size > this.#namesMax && oldest !== undefined) this.#names.delete(oldest)
  }

  has(cid: Cid): boolean {
    return this.#names.has(nameOf(cid))
  }

  /** Forgets it; whether it was remembered. */
  take(cid: Cid): boolean {
    return this.#names.delete(nameOf(cid))
  }
}

function nameOf({ digest }: Cid): string {
  return String.fromCharCode(...digest.subarray(0, 8))
}
