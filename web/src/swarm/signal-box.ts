import type { Reply } from '../channel/index.ts'
import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'
import type { Clock, Millis } from './api.ts'
import { encodeSignalFrame } from './segment.ts'

/** Signals that wait for one peer; one more is not said at all. */
const WAITING_MAX = 32
/**
 * How long the server is asked to pass one on. A peer whose tab has much to read is busy for seconds, and it is just then
 * that a direct path is sought: as long as a call waits to come up.
 */
const PATIENCE: Millis = 15_000
/** How often a signal is said of which no answer tells whether it was heard. */
const TIMEOUTS_MAX = 2
const DELAY_MIN: Millis = 10
const DELAY_MAX: Millis = 5000

/** Says signals to peers through the server: to each in order, one at a time, again when told to wait. */
export class SignalBox {
  readonly #push: (frame: Bytes) => Promise<Reply>
  readonly #clock: Clock
  readonly #waiting = new Map<PeerId, { count: number; last: Promise<boolean> }>()

  constructor(push: (frame: Bytes) => Promise<Reply>, clock: Clock) {
    this.#push = push
    this.#clock = clock
  }

  /** Whether the peer will hear it. */
  say(to: PeerId, signal: Bytes): Promise<boolean> {
    const queue = this.#waiting.get(to) ?? { count: 0, last: Promise.resolve(true) }
    if (queue.count >= WAITING_MAX) return Promise.resolve(false)
    queue.count++
    const until = this.#clock.now() + PATIENCE
    queue.last = queue.last.then(async () => {
      const isHeard = await this.#say(encodeSignalFrame(to, signal), until)
      if (--queue.count === 0) this.#waiting.delete(to)
      return isHeard
    })
    this.#waiting.set(to, queue)
    return queue.last
  }

  async #say(frame: Bytes, until: Millis): Promise<boolean> {
    let timeouts = 0
    for (;;) {
      const reply = await this.#push(frame)
      switch (reply.status) {
        case 'ok':
          return true
        case 'offline':
          return false
        case 'timeout':
          if (++timeouts >= TIMEOUTS_MAX) return false
          break
        case 'error': {
          const delay = retryAfter(reply.response)
          if (delay === null || this.#clock.now() >= until) return false
          await new Promise<void>((resolve) => this.#clock.after(Math.min(DELAY_MAX, Math.max(DELAY_MIN, delay)), resolve))
        }
      }
    }
  }
}

/** `null` when trying again is of no use. */
function retryAfter(response: unknown): Millis | null {
  if (typeof response !== 'object' || response === null || !('retry_after_ms' in response)) return null
  return typeof response.retry_after_ms === 'number' ? response.retry_after_ms : null
}
