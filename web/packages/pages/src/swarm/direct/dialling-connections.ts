import type { PeerId } from '../../bitswap/index.ts'
import type { Millis } from '../clock.ts'
import type { DirectConnections, DirectConnectionsDeps, DirectStatus } from '../direct-paths.ts'
import { dial as dialInBrowser } from './dial.ts'
import { decodeDialOffer, type DialOffer } from './dial-offer.ts'
import { Dialled, type Dial, type DialledEvent } from './dialled.ts'
import { encodeSignal, type HangUpReason } from './signal.ts'

/** Terminals that a tab dials at the same time, for one page. */
const DIALLED_MAX = 12
/** Streams that a peer may offer in a minute. */
const OFFERS_MAX = 8
const OFFERS_PERIOD: Millis = 60_000

/** The direct connections of one page: WebRTC, and streams to terminals that this tab dials. */
export class DiallingConnections implements DirectConnections {
  readonly #dial: Dial
  readonly #deps: DirectConnectionsDeps
  readonly #calls: DirectConnections
  /** Terminals that are dialled, or were. While a stream to one is open, there is no call with it. */
  readonly #dialled = new Map<PeerId, Dialled>()
  /** The offers of each peer in the last period. */
  readonly #offers = new Map<PeerId, { count: number; since: Millis }>()
  #isClosed = false

  constructor(dial: Dial, calls: DirectConnections, deps: DirectConnectionsDeps) {
    this.#dial = dial
    this.#calls = calls
    this.#deps = deps
  }

  get size(): number {
    return this.#calls.size + this.#dialled.size
  }

  connect(peer: PeerId): void {
    if (!this.#dialled.has(peer)) this.#calls.connect(peer)
  }

  handleSignal(peer: PeerId, bytes: Uint8Array): void {
    if (this.#isClosed) return
    const offer = decodeDialOffer(bytes)
    // While the stream is open, other signals are of a call that it has replaced.
    if (offer === null && this.#dialled.get(peer)?.path?.isUp !== true) this.#calls.handleSignal(peer, bytes)
    if (offer === null) return
    if (offer === 'invalid' || this.#isOverLimit(peer)) this.#deps.emit({ kind: 'misbehaved', peer })
    else this.#handleOffer(peer, offer)
  }

  status(peer: PeerId): DirectStatus {
    const dialled = this.#dialled.get(peer)
    if (dialled?.path?.isUp === true) return { kind: 'up' }
    const status = this.#calls.status(peer)
    return dialled !== undefined && status.kind === 'untried' ? { kind: 'calling', hindrance: null } : status
  }

  forget(peer: PeerId): void {
    this.#offers.delete(peer)
    this.#dialled.get(peer)?.end()
    this.#calls.forget(peer)
  }

  closeAll(): void {
    for (const dialled of [...this.#dialled.values()]) dialled.end()
    this.#calls.closeAll()
  }

  close(): void {
    this.#isClosed = true
    this.closeAll()
    this.#calls.close()
  }

  /** The terminal also calls soon, and the first path that opens is used. A stream that opens later replaces a call. */
  #handleOffer(peer: PeerId, offer: DialOffer): void {
    const decline = (reason: HangUpReason) => void this.#deps.send(peer, encodeSignal({ kind: 'hang_up', call: offer.call, reason }))
    // The terminal has given up the stream that is still open here.
    this.#dialled.get(peer)?.end()
    if (this.#dialled.size >= DIALLED_MAX) {
      decline('busy')
      return
    }
    const handle = (event: DialledEvent) => {
      const { emit } = this.#deps
      if (event.kind === 'open') this.#calls.forget(peer)
      else if (event.kind === 'ended') {
        this.#dialled.delete(peer)
        if (event.wasOpen) emit({ kind: 'ended', peer })
        else if (!this.#isClosed) decline('failed')
      } else if (event.kind !== 'up') emit({ ...event, peer })
      else if (dialled.path !== null) emit({ kind: 'up', peer, path: dialled.path })
    }
    const dialled = new Dialled(this.#deps.clock, handle)
    this.#dialled.set(peer, dialled)
    void dialled.dial(this.#dial, offer)
  }

  #isOverLimit(peer: PeerId): boolean {
    const now = this.#deps.clock.now()
    const known = this.#offers.get(peer)
    const offers = known === undefined || now - known.since >= OFFERS_PERIOD ? { count: 0, since: now } : known
    this.#offers.set(peer, offers)
    return ++offers.count > OFFERS_MAX
  }
}

/** Adds streams over the browser's `WebTransport` to the calls of a page. */
export const browserDialling = (calls: DirectConnections, deps: DirectConnectionsDeps): DiallingConnections =>
  new DiallingConnections(dialInBrowser, calls, deps)
