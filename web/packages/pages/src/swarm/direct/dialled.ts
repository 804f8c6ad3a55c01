import type { Clock, Millis } from '../clock.ts'
import type { Segment } from '../segment.ts'
import { DirectPath } from './direct-path.ts'
import type { DialOffer } from './dial-offer.ts'
import type { StreamChannel } from './stream-channel.ts'

/** Dials a terminal. Resolves with `null` if it cannot be reached. */
export type Dial = (offer: DialOffer, until: AbortSignal) => Promise<StreamChannel | null>

/** A terminal that is not reached by then is only reached over WebRTC. */
const DIAL_MAX: Millis = 3_000

export interface DialledEvents {
  /** The stream is open. Until this returns, nothing arrives. */
  readonly onOpen: () => void
  readonly onUp: (path: DirectPath) => void
  readonly onDown: () => void
  readonly onSegment: (segment: Segment) => void
  readonly onQuiet: () => void
  readonly onMisbehaviour: () => void
  /** The terminal was not reached, or the stream has closed. */
  readonly onEnd: (wasOpen: boolean) => void
}

/** A terminal that this tab dials over WebTransport: it has offered a stream in a signal. */
export class Dialled {
  path: DirectPath | null = null
  readonly #clock: Clock
  readonly #events: DialledEvents
  readonly #until = new AbortController()
  #channel: StreamChannel | null = null
  #isOver = false

  constructor(clock: Clock, events: DialledEvents) {
    this.#clock = clock
    this.#events = events
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
    const { onOpen, onUp, onDown, onSegment, onQuiet, onMisbehaviour } = this.#events
    onOpen()
    const end = () => this.end()
    const path = new DirectPath(channel, this.#clock, {
      onUp: () => onUp(path),
      onDown,
      onSegment,
      onMalformed: onMisbehaviour,
      onQuiet,
      onSilent: end,
      onBroken: end,
      // A stream is not bound by SCTP.
      onNarrow: () => {},
      onLaneSignal: onMisbehaviour,
    })
    this.path = path
    channel.addEventListener('close', end)
    path.setConnected(true)
    void channel.start()
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#until.abort()
    this.path?.close()
    this.#channel?.close()
    this.#events.onEnd(this.path !== null)
  }
}
