import type { PeerId } from '../bitswap/index.ts'
import type { Reply } from '@watchfire/client/connection'
import type { Bytes } from '../content/index.ts'
import type { Millis } from './clock.ts'
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

interface Signal {
  readonly frame: Bytes
  /** When it is retried no more. */
  readonly until: Millis
  readonly settle: (isDelivered: boolean) => void
}

/** The signals to one peer. The first one is being sent. */
interface Queue {
  readonly signals: Signal[]
  timeouts: number
  /** When the first one is sent again. `Infinity` while its reply is awaited. */
  retryAt: Millis
}

/** Signals to peers through the server: to each peer in order, one at a time. Retries when the server says so. */
export class Signals {
  readonly #queues = new Map<PeerId, Queue>()

  /** Returns the frame to send now, if there is one. `settle` is called with whether the signal was delivered. */
  push(now: Millis, to: PeerId, signal: Bytes, settle: (isDelivered: boolean) => void): Bytes | null {
    const queue = this.#queues.get(to) ?? { signals: [], timeouts: 0, retryAt: Infinity }
    if (queue.signals.length >= WAITING_MAX) {
      settle(false)
      return null
    }
    const frame = encodeSignalFrame(to, signal)
    this.#queues.set(to, queue)
    return queue.signals.push({ frame, until: now + RETRY_PERIOD, settle }) === 1 ? frame : null
  }

  /** The server replied to the last frame for this peer. Returns the next frame to send now, if there is one. */
  handleReply(now: Millis, to: PeerId, reply: Reply): Bytes | null {
    const queue = this.#queues.get(to)
    const [first, next] = queue?.signals ?? []
    if (queue === undefined || first === undefined) return null
    if (reply.status === 'timeout' && ++queue.timeouts < TIMEOUTS_MAX) return first.frame
    const delay = reply.status === 'error' ? readRefusal(reply.response).retryAfter : null
    if (delay !== null && now < first.until) {
      queue.retryAt = now + Math.min(DELAY_MAX, Math.max(DELAY_MIN, delay))
      return null
    }
    queue.signals.shift()
    queue.timeouts = 0
    if (next === undefined) this.#queues.delete(to)
    first.settle(reply.status === 'ok')
    return next?.frame ?? null
  }

  /** The frames to send again now. */
  takeDue(now: Millis): [to: PeerId, frame: Bytes][] {
    return [...this.#queues].flatMap(([to, queue]) => {
      const frame = queue.signals[0]?.frame
      if (frame === undefined || queue.retryAt > now) return []
      queue.retryAt = Infinity
      return [[to, frame] as [PeerId, Bytes]]
    })
  }

  /** When to call `takeDue`. `Infinity`: not without a reply. */
  nextWake(): Millis {
    return Math.min(...[...this.#queues.values()].map(({ retryAt }) => retryAt))
  }
}
