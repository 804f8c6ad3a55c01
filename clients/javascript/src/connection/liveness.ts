import type { Socket } from './socket.js'

export interface LivenessOptions {
  /** Timeout of a ping, after which the connection is replaced, in milliseconds. */
  readonly verifyMs: number
  /** Calls back when the connection is open, until the returned function is called. */
  readonly whenOpen: (callback: () => void) => () => void
  /** Ends the connection and begins another one. */
  readonly replace: () => void
}

/**
 * Soon after a connection was replaced, the next one gets twice the time to answer, at most this multiple of `verifyMs`. On a link that
 * is only slow, it would otherwise be replaced as well.
 */
const PATIENCE_MAX = 8
const PATIENCE_PERIOD_MS = 60_000

/**
 * Finds out whether the connection to the server still exists. It ends without a notice when a router restarts or gets another
 * address, and the heartbeats alone show this only after 30 to 60 seconds.
 */
export class Liveness {
  readonly #socket: Socket
  readonly #options: LivenessOptions
  #patience = 1
  #replacedAt = -Infinity
  #verifying: Promise<void> | null = null

  constructor(socket: Socket, options: LivenessOptions) {
    this.#socket = socket
    this.#options = options
  }

  /** Resolves when the server has answered a ping, on this connection or on the next one. One ping serves all callers. */
  verify(): Promise<void> {
    this.#verifying ??= this.#verify().finally(() => (this.#verifying = null))
    return this.#verifying
  }

  #verify(): Promise<void> {
    if (performance.now() - this.#replacedAt > PATIENCE_PERIOD_MS) this.#patience = 1
    return new Promise((resolve) => {
      const settle = () => {
        stop()
        resolve()
      }
      const stop = this.#options.whenOpen(settle)
      // Without a connection, the next one is awaited.
      if (!this.#ask(settle)) this.#socket.hurry()
    })
  }

  /** `false` without a connection. */
  #ask(settle: () => void): boolean {
    const { received } = this.#socket
    return this.#socket.ping(this.#options.verifyMs * this.#patience, (isAnswered) => {
      if (isAnswered) {
        this.#patience = 1
        settle()
      } else if (this.#socket.received > received) {
        // Large messages may delay the answer.
        this.#ask(settle)
      } else {
        this.#patience = Math.min(PATIENCE_MAX, this.#patience * 2)
        this.#replacedAt = performance.now()
        this.#options.replace()
      }
    })
  }
}
