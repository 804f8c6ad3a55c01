import type { Reply } from '@watchfire/client/connection'
import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'
import type { Clock, Millis } from './clock.ts'
import { encodeSignalFrame } from './segment.ts'
import { readRefusal } from './server-messages.ts'

/** Signals that wait for one peer. When the limit is reached, further signals are dropped. */
const WAITING_MAX = 32
/**
 * The time for which a signal is retried: as long as a connection attempt may take. A peer with much to read is busy for
 * seconds, just when a direct connection is needed.
 */
const RETRY_PERIOD: Millis = 15_000
/** The most times that a signal is sent without a reply. */
const TIMEOUTS_MAX = 2
const DELAY_MIN: Millis = 10
const DELAY_MAX: Millis = 5000

/** Sends signals to peers through the server: to each peer in order, one at a time. Retries when the server says so. */
export class SignalSender {
  readonly #push: (frame: Bytes) => Promise<Reply>
  readonly #clock: Clock
  readonly #waiting = new Map<PeerId, { count: number; last: Promise<boolean> }>()

  constructor(push: (frame: Bytes) => Promise<Reply>, clock: Clock) {
    this.#push = push
    this.#clock = clock
  }

  /** Resolves with whether the signal was delivered. */
  send(to: PeerId, signal: Bytes): Promise<boolean> {
    const queue = this.#waiting.get(to) ?? { count: 0, last: Promise.resolve(true) }
    if (queue.count >= WAITING_MAX) return Promise.resolve(false)
    queue.count++
    const until = this.#clock.now() + RETRY_PERIOD
    queue.last = queue.last.then(async () => {
      const isHeard = await this.#deliver(encodeSignalFrame(to, signal), until)
      if (--queue.count === 0) this.#waiting.delete(to)
      return isHeard
    })
    this.#waiting.set(to, queue)
    return queue.last
  }

  async #deliver(frame: Bytes, until: Millis): Promise<boolean> {
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
          const { retryAfter: delay } = readRefusal(reply.response)
          if (delay === null || this.#clock.now() >= until) return false
          await new Promise<void>((resolve) => this.#clock.after(Math.min(DELAY_MAX, Math.max(DELAY_MIN, delay)), resolve))
        }
      }
    }
  }
}
