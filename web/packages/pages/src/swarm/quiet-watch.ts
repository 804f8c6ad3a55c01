import type { Clock, Millis } from './clock.ts'

/** Peers send something at least this often while a page loads. */
const QUIET_MAX: Millis = 2_000

/**
 * Notices that all peers have fallen silent at once. A tab that waits for blocks sends nothing, so it would not notice by
 * itself that its network is gone.
 */
export class QuietWatch {
  readonly #clock: Clock
  readonly #onQuiet: () => void
  #heardAt: Millis = 0
  #stop: (() => void) | null = null

  constructor(clock: Clock, onQuiet: () => void) {
    this.#clock = clock
    this.#onQuiet = onQuiet
  }

  /** A peer sent something. `onQuiet` follows once, unless more arrives in time. */
  noteHeard(): void {
    this.#heardAt = this.#clock.now()
    this.#stop ??= this.#clock.after(QUIET_MAX, () => this.#check())
  }

  close(): void {
    this.#stop?.()
  }

  #check(): void {
    const rest = this.#heardAt + QUIET_MAX - this.#clock.now()
    this.#stop = rest > 0 ? this.#clock.after(rest, () => this.#check()) : null
    if (rest <= 0) this.#onQuiet()
  }
}
