import type { Limits } from '../limits.ts'
import { MILLI, multiplyDivide, rateOf, SECOND, since, type Nanos } from '../time.ts'

const SAMPLE_MIN: Nanos = 20 * MILLI

/**
 * The rate at which a peer delivers, and the amount to request from it at a time.
 *
 * The window is what the peer delivers in two round trips, or in 20 ms if that is longer, plus two blocks. While the
 * window is the limit, it doubles every round trip. When something else is the limit, the rate stops growing, and so
 * does the window.
 */
export class DeliveryRate {
  /** Bytes a second. 0 while unknown. */
  rate = 0
  /** The shortest time from a want to its answer. `null` before the first answer. */
  baseLatency: Nanos | null = null
  /** The usual time from a want to its answer. `null` before the first answer. */
  usualLatency: Nanos | null = null
  windowBytes: number
  delivered = 0
  #blockBytes: number
  readonly #blocksMin: number
  #sampleFrom: Nanos = 0
  #sampleBytes = 0

  /** `blocksMin`: blocks to request at least. */
  constructor(limits: Limits, blocksMin: number) {
    this.windowBytes = Math.max(limits.windowBytesMin, blocksMin * limits.blockBytesEstimate)
    this.#blocksMin = blocksMin
    this.#blockBytes = limits.blockBytesEstimate
  }

  /** Something was requested after a time without requests. */
  startSample(now: Nanos): void {
    this.#sampleFrom = now
    this.#sampleBytes = 0
  }

  /** The next delivery may answer a request that is as old as `then`. */
  extendSampleBack(then: Nanos): void {
    this.#sampleFrom = Math.min(this.#sampleFrom, then)
  }

  /** An answer took this long. */
  recordLatency(took: Nanos): void {
    this.baseLatency = this.baseLatency === null ? took : Math.min(this.baseLatency, took)
    this.usualLatency = this.usualLatency === null ? took : Math.floor((this.usualLatency * 7 + took) / 8)
  }

  /** The expected length of this many blocks, in bytes. */
  bytesOfBlocks(blocks: number): number {
    return blocks * this.#blockBytes
  }

  /** Moves the latency of this total towards that of one peer in it. */
  blendLatency({ baseLatency }: DeliveryRate): void {
    if (baseLatency === null) return
    this.baseLatency = this.baseLatency === null ? baseLatency : Math.floor((this.baseLatency * 7 + baseLatency) / 8)
  }

  recordBlock(now: Nanos, bytes: number, limits: Limits): void {
    this.delivered += bytes
    this.#sampleBytes += bytes
    this.#blockBytes = Math.max(bytes, Math.floor(this.#blockBytes / 2))
    const base = this.baseLatency ?? 0
    const took = since(now, this.#sampleFrom)
    if (took < Math.max(base, SAMPLE_MIN)) return
    const sample = rateOf(this.#sampleBytes, took)
    this.rate = sample > this.rate ? sample : Math.floor(this.rate / 8) * 7 + Math.floor(sample / 8)
    this.startSample(now)
    const within = Math.max(base * 2, base + SAMPLE_MIN)
    // On a slow link, where a block takes seconds, many requested blocks would only queue at the peer.
    const least = clamp(this.rate * 2, 2 * this.#blockBytes, Math.max(2, this.#blocksMin) * this.#blockBytes)
    const window = multiplyDivide(this.rate, within, SECOND) + least
    this.windowBytes = clamp(window, limits.windowBytesMin, limits.windowBytesMax)
  }
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value))
}
