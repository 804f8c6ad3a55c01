import type { Clock } from '../src/swarm/clock.ts'

/** Longer steps than this, in milliseconds, could look like silence of a peer. */
const LONG = 100
/** Real milliseconds to wait before such a step. */
const ROOM = 10

/** Operations that take real time and are not finished: the clock does not move meanwhile. */
let working = 0

/** Counts the operations of a method that returns a promise. */
function count<Name extends string>(target: Record<Name, (...args: never[]) => Promise<unknown>>, name: Name): void {
  const native = target[name]
  target[name] = function (this: unknown, ...args: never[]) {
    working++
    return native.apply(this, args).finally(() => working--)
  }
}
for (const name of ['arrayBuffer', 'text'] as const) count(Blob.prototype, name)
for (const name of ['decrypt', 'deriveBits', 'digest', 'encrypt', 'importKey', 'sign', 'verify'] as const)
  count(SubtleCrypto.prototype, name)

/** A clock for tests. It moves only when told to. */
export class FakeClock implements Clock {
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

  /** Moves to the next timer and fires it. Returns `false` if there is none. */
  fireNext(): boolean {
    const [next] = [...this.#timers].sort(([a, { at }], [b, other]) => at - other.at || a - b)
    if (next === undefined) return false
    const [id, { at, callback }] = next
    this.#timers.delete(id)
    this.#now = Math.max(this.#now, at)
    callback()
    return true
  }

  /** Moves by this many milliseconds and fires all timers that are due. */
  pass(milliseconds: number): void {
    const until = this.#now + milliseconds
    for (;;) {
      const due = [...this.#timers.values()].some(({ at }) => at <= until)
      if (!due) break
      this.fireNext()
    }
    this.#now = until
  }

  /** Simulates a busy tab: timers that are due meanwhile fire late. */
  holdUp(milliseconds: number): void {
    this.#now += milliseconds
    this.pass(0)
  }

  /**
   * Fires timers until `happened` returns true. Before each step, hashing and reading of blobs end, and other work that takes
   * real time gets a chance to. It gets longer before a long step, so that a peer that is only computing does not look silent.
   */
  async until(happened: () => boolean): Promise<void> {
    for (let steps = 0; steps < 20_000; steps++) {
      const roomEndsAt = performance.now() + (this.#untilNext() > LONG ? ROOM : 0)
      for (let turn = 0; turn < 4 || working > 0 || performance.now() < roomEndsAt; turn++) {
        if (happened()) return
        await new Promise((resolve) => setImmediate(resolve))
        if (working === 0 && this.#untilNext() <= LONG && turn >= 4) break
      }
      this.fireNext()
    }
    throw new Error('it never happened')
  }

  #untilNext(): number {
    return Math.min(Infinity, ...[...this.#timers.values()].map(({ at }) => at - this.#now))
  }
}
