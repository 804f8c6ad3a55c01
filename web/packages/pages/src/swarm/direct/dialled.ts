import type { Clock, Millis } from '../clock.ts'
import { DirectPath, type InnerPathEvent, type PathEvent } from './path.ts'
import type { DialOffer } from './dial-offer.ts'
import type { StreamChannel } from './stream-channel.ts'

/** Dials a terminal. Resolves with `null` if it cannot be reached. */
export type Dial = (offer: DialOffer, until: AbortSignal) => Promise<StreamChannel | null>

/** A terminal that is not reached by then is only reached over WebRTC. */
const DIAL_MAX: Millis = 3_000

export type DialledEvent =
  | Exclude<PathEvent, InnerPathEvent>
  /** The stream is open. Until the event was handled, nothing arrives. */
  | { readonly kind: 'open' }
  /** The terminal was not reached, or the stream has closed. */
  | { readonly kind: 'ended'; readonly wasOpen: boolean }

/** A terminal that this tab dials over WebTransport: it has offered a stream in a signal. */
export class Dialled {
  path: DirectPath | null = null
  readonly #clock: Clock
  readonly #emit: (event: DialledEvent) => void
  readonly #until = new AbortController()
  #channel: StreamChannel | null = null
  #isOver = false

  constructor(clock: Clock, emit: (event: DialledEvent) => void) {
    this.#clock = clock
    this.#emit = emit
  }

  async dial(dial: Dial, offer: DialOffer): Promise<void> {
    const stop = this.#clock.after(DIAL_MAX, () => this.#until.abort())
    const channel = await dial(offer, this.#until.signal).catch(() => null)
    stop()
    // A channel that has closed already dispatches no event.
    if (channel?.readyState !== 'open' || this.#isOver) {
      channel?.close()
      this.end()
      return
    }
    this.#channel = channel
    this.#emit({ kind: 'open' })
    this.path = new DirectPath(channel, this.#clock, (event) => this.#handlePathEvent(event))
    channel.addEventListener('close', () => this.end())
    this.path.setConnected(true)
    void channel.start()
  }

  #handlePathEvent(event: PathEvent): void {
    switch (event.kind) {
      case 'silent':
      case 'broken':
        this.end()
        return
      case 'narrow':
        // A stream is not bound by SCTP.
        return
      case 'lane-signal':
        this.#emit({ kind: 'misbehaved' })
        return
      case 'up':
      case 'down':
      case 'segment':
      case 'sent':
      case 'quiet':
      case 'misbehaved':
        this.#emit(event)
        return
    }
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#until.abort()
    this.path?.close()
    this.#channel?.close()
    this.#emit({ kind: 'ended', wasOpen: this.path !== null })
  }
}
