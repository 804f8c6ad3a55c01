import type { ExchangeLimits } from '../limits.ts'
import { MILLI, multiplyDivide, rateOf, SECOND, since, type Nanos } from '../time.ts'

const MOMENT: Nanos = 20 * MILLI

/**
 * How fast a peer delivers, and how much it should be asked for at a time.
 *
 * The window is what the peer delivers within two round trips (and no less than a moment, for the hiccups of a busy
 * machine), and two blocks. While the window is what limits, that doubles it every round trip; once something else does,
 * the rate stops growing and so does the window.
 */
export class Pace {
  /** Bytes a second, 0 while unknown. */
  rate = 0
  /** The shortest time to an answer. */
  base: Nanos | null = null
  /** The usual time to an answer. */
  usual: Nanos | null = null
  window: number
  delivered = 0
  #block: number
  readonly #blocksMin: number
  #sampleFrom: Nanos = 0
  #sampleBytes = 0

  /** `blocksMin`: blocks that are asked for at least. */
  constructor(limits: ExchangeLimits, blocksMin: number) {
    this.window = Math.max(limits.windowBytesMin, blocksMin * limits.blockBytesGuess)
    this.#blocksMin = blocksMin
    this.#block = limits.blockBytesGuess
  }

  /** It was asked, after it had owed nothing. */
  begin(now: Nanos): void {
    this.#sampleFrom = now
    this.#sampleBytes = 0
  }

  /** What comes next may have been asked for since then. */
  beganBy(then: Nanos): void {
    this.#sampleFrom = Math.min(this.#sampleFrom, then)
  }

  /** An answer took so long. */
  answered(took: Nanos): void {
    this.base = this.base === null ? took : Math.min(this.base, took)
    this.usual = this.usual === null ? took : Math.floor((this.usual * 7 + took) / 8)
  }

  /** Bytes of so many blocks. */
  bytes(blocks: number): number {
    return blocks * this.#block
  }

  /** It stands for many, this one among them. */
  follows({ base }: Pace): void {
    if (base === null) return
    this.base = this.base === null ? base : Math.floor((this.base * 7 + base) / 8)
  }

  delivers(now: Nanos, bytes: number, limits: ExchangeLimits): void {
    this.delivered += bytes
    this.#sampleBytes += bytes
    this.#block = Math.max(bytes, Math.floor(this.#block / 2))
    const base = this.base ?? 0
    const took = since(now, this.#sampleFrom)
    if (took < Math.max(base, MOMENT)) return
    const sample = rateOf(this.#sampleBytes, took)
    this.rate = sample > this.rate ? sample : Math.floor(this.rate / 8) * 7 + Math.floor(sample / 8)
    this.begin(now)
    const within = Math.max(base * 2, base + MOMENT)
    // Where a block takes seconds, many of them at a time are a long line.
    const least = clamp(this.rate * 2, 2 * this.#block, Math.max(2, this.#blocksMin) * this.#block)
    const window = multiplyDivide(this.rate, within, SECOND) + least
    this.window = clamp(window, limits.windowBytesMin, limits.windowBytesMax)
  }
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value))
}
