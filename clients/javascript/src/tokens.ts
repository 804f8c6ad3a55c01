/** Returns a token (JWT) for the signed-in user, usually from your backend. */
export type GetToken = () => string | Promise<string>

/** A token is replaced before a connect if it ends within this time. */
const MARGIN_MS = 5_000

/** A token with which no connection opened is used again for this time. Longer than most restarts of a server. */
const DOUBT_MS = 30_000

/** Waits before `getToken` is called again after a failure; the last one repeats. */
const RETRY_MS = [1_000, 2_000, 5_000]
const RETRY_LATER_MS = 10_000

/** The world as tokens need it. Tests have a clock of their own. */
export type Clock = { now: () => number; wait: (ms: number, signal: AbortSignal) => Promise<void> }

/** A JWT in the compact form. Only a token without a signature has an empty last part. */
const JWT = /^[\w-]+\.([\w-]+)\.[\w-]*$/

/** The latest token, and how to get the next one. */
export class Tokens {
  readonly #getToken: GetToken
  readonly #onError: (error: Error) => void
  readonly #clock: Clock
  #latest: { token: string; endsAt: number; fetchedAt: number } | undefined
  #isDoubted = false
  #pending: Promise<string | undefined> | undefined
  #stop = new AbortController()

  constructor(getToken: GetToken, onError: (error: Error) => void, clock: Clock = systemClock) {
    this.#getToken = getToken
    this.#onError = onError
    this.#clock = clock
  }

  /** The latest token, which may have expired. */
  get latest(): string | undefined {
    return this.#latest?.token
  }

  /** A token for a new connection: the latest, if it still lasts. `undefined` after `stop`. */
  async valid(): Promise<string | undefined> {
    const { latest, now } = { latest: this.#latest, now: this.#clock.now() }
    const isDoubtful = this.#isDoubted && latest !== undefined && now - latest.fetchedAt >= DOUBT_MS
    return latest && latest.endsAt - now > MARGIN_MS && !isDoubtful ? latest.token : this.renew()
  }

  /** A new token. Calls at the same time share it. A failure is reported and repeated, until `stop`: then `undefined`. */
  renew(): Promise<string | undefined> {
    this.#pending ??= this.#fetch(this.#stop.signal)
    return this.#pending
  }

  /**
   * No connection opened with the latest token. The cause may be the token: a browser does not say. The clock of this machine may be
   * slow, or the server has another key.
   */
  doubt(): void {
    this.#isDoubted = true
  }

  /** Ends all waiting. */
  stop(): void {
    this.#stop.abort()
    this.#stop = new AbortController()
    this.#pending = undefined
  }

  async #fetch(signal: AbortSignal): Promise<string | undefined> {
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        const token = withoutSpaces(await this.#getToken())
        const endsAt = endOf(token)
        if (signal.aborted) return undefined
        this.#latest = { token, endsAt, fetchedAt: this.#clock.now() }
        this.#isDoubted = false
        this.#pending = undefined
        return token
      } catch (cause) {
        if (signal.aborted) return undefined
        this.#onError(new Error(`cannot get a token: ${messageOf(cause)}; getToken() is called again`, { cause }))
        await this.#clock.wait(RETRY_MS[failures] ?? RETRY_LATER_MS, signal)
      }
    }
    return undefined
  }
}

/** The end of a token in milliseconds since 1970. The signature is the server's concern. */
export function endOf(token: unknown): number {
  const [, claims] = (typeof token === 'string' && JWT.exec(token)) || []
  if (!claims)
    throw new TypeError('getToken() did not return a JWT, which has three parts in base64url with dots between them, and no quotes')
  let exp: unknown
  try {
    exp = JSON.parse(atob(claims.replaceAll('-', '+').replaceAll('_', '/'))).exp
  } catch {
    throw new TypeError('the second part of the JWT is not JSON in base64url')
  }
  if (typeof exp !== 'number') throw new TypeError('the JWT has no claim "exp" with a number: sign it with an end')
  return exp * 1_000
}

/** Many backends end a text with a new line. */
function withoutSpaces(token: string): string {
  return typeof token === 'string' ? token.trim() : token
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}

const systemClock: Clock = {
  now: Date.now,
  wait: (ms, signal) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      const stop = () => {
        clearTimeout(timer)
        resolve()
      }
      signal.addEventListener('abort', stop, { once: true })
    }),
}
