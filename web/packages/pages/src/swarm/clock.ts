/** A duration, or a time of a monotonic clock, in milliseconds. */
export type Millis = number

/** The browser's clock in the app, a fake one in tests. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number
  /** Calls once, after this many milliseconds. The returned function cancels the call. */
  after(milliseconds: number, callback: () => void): () => void
}
