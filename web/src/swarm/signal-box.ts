import type { Reply } from '../channel/index.ts'
import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'
import type { Clock, Millis } from './api.ts'
import { encodeSignalFrame } from './segment.ts'

/** Signals that wait for one peer; one more is not said at all. */
const WAITING_MAX = 32
/** How often the server is asked to pass one on. */
const TRIES_MAX = 5
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
    queue.last = queue.last.then(async () => {
      const isHeard = await this.#say(encodeSignalFrame(to, signal))
      if (--queue.count === 0) this.#waiting.delete(to)
      return isHeard
    })
    this.#waiting.set(to, queue)
    return queue.last
  }

  async #say(frame: Bytes): Promise<boolean> {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const reply = await this.#push(frame)
      switch (reply.status) {
        case 'ok':
          return true
        case 'offline':
          return false
        case 'timeout':
          break
        case 'error': {
          const delay = retryAfter(reply.response)
          if (delay === null) return false
          await new Promise<void>((resolve) => this.#clock.after(Math.min(DELAY_MAX, Math.max(DELAY_MIN, delay)), resolve))
        }
      }
    }
    return false
  }
}

/** `null` when trying again is of no use. */
function retryAfter(response: unknown): Millis | null {
  if (typeof response !== 'object' || response === null || !('retry_after_ms' in response)) return null
  return typeof response.retry_after_ms === 'number' ? response.retry_after_ms : null
}
