import type { Clock } from './api.ts'

/** Steps of more milliseconds than this could be mistaken for silence. */
const LONG = 100
/** Real milliseconds before such a step. */
const ROOM = 10

/** A clock for tests, which moves only when told to. */
export class PretendClock implements Clock {
  #now = 0
  #order = 0
  readonly #timers = new Map<number, { at: number; callback: () => void }>()

  now(): number {
    return this.#now
  }

  after(milliseconds: number, callback: () => void): () => void {
    const id = this.#order++
    this.#timers.set(id, { at: this.#now + milliseconds, callback })
    return () => this.#timers.delete(id)
  }

  /** Moves to the next timer and lets it ring; `false` when there is none. */
  ring(): boolean {
    const [next] = [...this.#timers].sort(([a, { at }], [b, other]) => at - other.at || a - b)
    if (next === undefined) return false
    const [id, { at, callback }] = next
    this.#timers.delete(id)
    this.#now = Math.max(this.#now, at)
    callback()
    return true
  }

  /** Moves on, and lets everything ring that is due by then. */
  pass(milliseconds: number): void {
    const until = this.#now + milliseconds
    for (;;) {
      const due = [...this.#timers.values()].some(({ at }) => at <= until)
      if (!due) break
      this.ring()
    }
    this.#now = until
  }

  /** Whoever computes for so long hears of nothing: what is due meanwhile rings late. */
  holdUp(milliseconds: number): void {
    this.#now += milliseconds
    this.pass(0)
  }

  /**
   * Lets time pass until `happened`. What takes real time (hashing, reading blobs) gets room to finish before each step,
   * and more of it before a long one, lest a peer seem silent that is only being computed.
   */
  async until(happened: () => boolean): Promise<void> {
    for (let steps = 0; steps < 20_000; steps++) {
      const roomEndsAt = performance.now() + (this.#untilNext() > LONG ? ROOM : 0)
      for (let turn = 0; turn < 4 || performance.now() < roomEndsAt; turn++) {
        if (happened()) return
        await new Promise((resolve) => setImmediate(resolve))
        if (this.#untilNext() <= LONG && turn >= 4) break
      }
      this.ring()
    }
    throw new Error('it never happened')
  }

  #untilNext(): number {
    return Math.min(Infinity, ...[...this.#timers.values()].map(({ at }) => at - this.#now))
  }
}
