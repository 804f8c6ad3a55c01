import { Socket } from 'phoenix'

import type { Tokens } from './tokens.js'

/**
 * The socket of npm `phoenix`, which gets a fresh token before it connects.
 *
 * @internal
 */
export class ClientSocket extends Socket {
  readonly tokens: Tokens | undefined
  readonly reportError: (error: Error) => void
  /** Topics of channels that are joined or try to join. */
  readonly topics = new Set<string>()
  /** The token of the latest connection. */
  #connectedWith: string | undefined
  #isWanted = false

  constructor(url: string, options: object, tokens: Tokens | undefined, reportError: (error: Error) => void) {
    const authToken = () => (this.#connectedWith = tokens?.latest)
    super(url, tokens ? { ...options, authToken } : options)
    this.tokens = tokens
    this.reportError = reportError
    this.#watchFailures(url)
  }

  /** A token for a join, if the server does not have it from the connection. */
  get tokenForJoin(): string | undefined {
    const latest = this.tokens?.latest
    return latest === this.#connectedWith ? undefined : latest
  }

  /**
   * npm `phoenix` calls this for each connection. The server refuses a connection whose token has expired, and `phoenix` would then
   * fall back to long poll. So the token comes first.
   */
  override connect(): void {
    const isOpen = this.#isWanted && this.isConnected()
    this.#isWanted = true
    if (isOpen) return
    if (!this.tokens) {
      super.connect()
      return
    }
    void this.tokens.valid().then((token) => {
      if (token !== undefined && this.#isWanted) super.connect()
    })
  }

  override disconnect(callback?: () => void): void {
    this.#isWanted = false
    this.tokens?.stop()
    super.disconnect(callback)
  }

  /** Reports the first connection that does not open. A connection that was open and is lost is normal. */
  #watchFailures(url: string): void {
    let isOpen = false
    let isReported = false
    this.onOpen(() => ([isOpen, isReported] = [true, false]))
    this.onClose(() => (isOpen = false))
    this.onError(() => {
      if (isOpen) return
      this.tokens?.doubt()
      if (isReported) return
      isReported = true
      const refused = this.tokens ? 'the token or the origin of this page' : 'the origin of this page'
      this.reportError(new Error(`cannot connect to ${url}: the server does not answer, or refuses ${refused}; the client tries again`))
    })
  }
}
