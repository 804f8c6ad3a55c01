/** A duration, or a time of a monotonic clock, in whole nanoseconds. Exact for a hundred days. */
export type Nanos = number

export const MILLI: Nanos = 1_000_000
export const SECOND: Nanos = 1_000_000_000

/** The time from `earlier` to `now`. Zero if `earlier` is later. */
export function since(now: Nanos, earlier: Nanos): Nanos {
  return Math.max(0, now - earlier)
}

/** The time that `bytes` take at a rate in bytes a second. */
export function transferTime(bytes: number, rate: number): Nanos {
  return multiplyDivide(bytes, SECOND, Math.max(1, rate))
}

/** Bytes a second. */
export function rateOf(bytes: number, took: Nanos): number {
  return multiplyDivide(bytes, SECOND, Math.max(1, took))
}

/** `one * other / by`, rounded down. Exact even if the product is too large for a number. */
export function multiplyDivide(one: number, other: number, by: number): number {
  const product = one * other
  if (product <= Number.MAX_SAFE_INTEGER) return Math.floor(product / by)
  return Number((BigInt(one) * BigInt(other)) / BigInt(by))
}

export function earliest(...times: readonly (Nanos | null)[]): Nanos | null {
  let first: Nanos | null = null
  for (const time of times) if (time !== null && (first === null || time < first)) first = time
  return first
}
