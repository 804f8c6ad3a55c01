/**
 * A set of small numbers, one bit each. For a thousand wants, the blocks that a peer has and lacks take about 300 bytes. It
 * iterates over words of 64 bits, as the Rust core does, and stores halves of 32 bits.
 */
export class BitSet {
  readonly #halves: number[] = []
  #size = 0

  has(at: number): boolean {
    return (((this.#halves[at >>> 5] ?? 0) >>> (at & 31)) & 1) === 1
  }

  /** Returns whether the number was not in the set. */
  insert(at: number): boolean {
    while (at >>> 6 >= this.words) this.#halves.push(0, 0)
    const half = this.#halves[at >>> 5] ?? 0
    const bit = 1 << (at & 31)
    if ((half & bit) !== 0) return false
    this.#halves[at >>> 5] = half | bit
    this.#size++
    return true
  }

  /** Returns whether the number was in the set. */
  remove(at: number): boolean {
    if (!this.has(at)) return false
    this.#halves[at >>> 5] = (this.#halves[at >>> 5] ?? 0) & ~(1 << (at & 31))
    this.#size--
    return true
  }

  get size(): number {
    return this.#size
  }

  get words(): number {
    return this.#halves.length >>> 1
  }

  half(at: number): number {
    return this.#halves[at] ?? 0
  }

  /** Whether this set contains all numbers of another set. */
  hasAll(other: BitSet): boolean {
    return other.#halves.every((half, at) => (half & ~this.half(at)) === 0)
  }

  /** The numbers in ascending order. */
  numbers(): Generator<number, void> {
    return ones(this.words, (at) => this.half(at))
  }
}

/** The numbers of a set whose halves are computed by a function, in ascending order. */
export function* ones(words: number, half: (at: number) => number): Generator<number, void> {
  for (let at = 0; at < words * 2; at++) {
    for (let rest = half(at); rest !== 0; rest &= rest - 1) yield at * 32 + lowest(rest)
  }
}

/**
 * The same numbers, starting with word `start` and, in each word, with bit `turn`. Random arguments give a random
 * order.
 */
export function* onesFrom(words: number, half: (at: number) => number, start: number, turn: number): Generator<number, void> {
  for (let nth = 0; nth < words; nth++) {
    const word = (start + nth) % words
    const low = half(word * 2)
    const high = half(word * 2 + 1)
    if ((low | high) === 0) continue
    const [first, second] = rotated(low, high, turn)
    for (let rest = first; rest !== 0; rest &= rest - 1) yield word * 64 + ((lowest(rest) + turn) % 64)
    for (let rest = second; rest !== 0; rest &= rest - 1) yield word * 64 + ((32 + lowest(rest) + turn) % 64)
  }
}

function rotated(low: number, high: number, turn: number): [number, number] {
  const [one, other] = turn >= 32 ? [high, low] : [low, high]
  const by = turn % 32
  if (by === 0) return [one, other]
  return [(one >>> by) | (other << (32 - by)), (other >>> by) | (one << (32 - by))]
}

function lowest(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}
