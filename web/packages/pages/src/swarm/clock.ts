/** A duration, or a time of a monotonic clock, in milliseconds. */
export type Millis = number

/** The browser's clock in the app, a fake one in tests. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number
  /** Calls once, after this many milliseconds. The returned function cancels the call. */
  after(milliseconds: number, callback: () => void): () => void
}

/** A timer that fires this late shows that the tab was busy. */
const LATE_MIN: Millis = 150

/** A timer that can be set again. */
export class Alarm {
  /** The time for which it is set. `Infinity`: it is not set. */
  at: Millis = Infinity
  readonly #clock: Clock
  readonly #ring: (now: Millis) => void
  readonly #extraWaitMax: Millis
  #stop: (() => void) | null = null

  /**
   * `ring` gets the time, which is never before the time for which the timer was set: a timer may fire a little early.
   * `extraWaitMax`: when the tab was busy, the timer waits once more for as long as it is late, up to this time.
   */
  constructor(clock: Clock, ring: (now: Millis) => void, extraWaitMax: Millis = 0) {
    this.#clock = clock
    this.#ring = ring
    this.#extraWaitMax = extraWaitMax
  }

  /** Sets the timer for this time, unless it is set for an earlier one. A time in the past is now. */
  set(at: Millis): void {
    if (at >= this.at) return
    this.stop()
    this.at = at
    const now = this.#clock.now()
    const due = Math.max(at, now)
    this.#stop = this.#clock.after(due - now, () => {
      const late = this.#clock.now() - due
      const wait = late > LATE_MIN ? Math.min(late, this.#extraWaitMax) : 0
      if (wait === 0) this.#fire()
      else this.#stop = this.#clock.after(wait, () => this.#fire())
    })
  }

  stop(): void {
    this.#stop?.()
    this.at = Infinity
  }

  #fire(): void {
    const now = Math.max(this.at, this.#clock.now())
    this.at = Infinity
    this.#ring(now)
  }
}
