import type { PeerId } from '../../bitswap/index.ts'
import type { DirectConnections, DirectConnectionsDeps, DirectStatus } from '../direct-paths.ts'
import { browserDirectConnections } from './index.ts'
import { decodeSignal } from './signal.ts'

/** Adds streams to terminals to the calls of a page. */
export type AddDialling = (calls: DirectConnections, deps: DirectConnectionsDeps) => DirectConnections

/** Offers that wait for the code, one of each peer. At the limit, further ones are ignored: their terminals call soon. */
const WAITING_MAX = 12

/** The direct connections of a page: WebRTC alone, until the first offer of a terminal has loaded the code that dials. */
export class LateDialling implements DirectConnections {
  readonly #load: () => Promise<AddDialling>
  readonly #calls: DirectConnections
  readonly #deps: DirectConnectionsDeps
  readonly #waiting = new Map<PeerId, Uint8Array>()
  /** With the code that dials, once it is here. */
  #connections: DirectConnections
  #isLoading = false
  #isClosed = false

  constructor(load: () => Promise<AddDialling>, calls: DirectConnections, deps: DirectConnectionsDeps) {
    this.#load = load
    this.#calls = calls
    this.#deps = deps
    this.#connections = calls
  }

  get size(): number {
    return this.#connections.size
  }

  connect(peer: PeerId): void {
    this.#connections.connect(peer)
  }

  handleSignal(peer: PeerId, bytes: Uint8Array): void {
    const waits = this.#connections === this.#calls && decodeSignal(bytes)?.kind === 'web_transport'
    if (!waits) {
      this.#connections.handleSignal(peer, bytes)
      return
    }
    if (this.#waiting.has(peer) || this.#waiting.size < WAITING_MAX) this.#waiting.set(peer, bytes)
    if (!this.#isLoading && !this.#isClosed) void this.#fetch()
  }

  status(peer: PeerId): DirectStatus {
    return this.#connections.status(peer)
  }

  forget(peer: PeerId): void {
    this.#waiting.delete(peer)
    this.#connections.forget(peer)
  }

  closeAll(): void {
    this.#waiting.clear()
    this.#connections.closeAll()
  }

  close(): void {
    this.#isClosed = true
    this.#waiting.clear()
    this.#connections.close()
  }

  async #fetch(): Promise<void> {
    this.#isLoading = true
    try {
      const add = await this.#load()
      if (!this.#isClosed) this.#connections = add(this.#calls, this.#deps)
    } catch {
      // The code did not load. WebRTC still works, and the next offer tries again.
    }
    this.#isLoading = false
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    if (this.#connections === this.#calls) return
    for (const [peer, bytes] of waiting) this.#connections.handleSignal(peer, bytes)
  }
}

const load = () => import('./dialling-connections.ts').then((dialling) => dialling.browserDialling)

/** Direct connections over the browser's `RTCPeerConnection`, and over `WebTransport` to terminals that offer it. */
export const browserLateDialling = (deps: DirectConnectionsDeps): LateDialling =>
  new LateDialling(load, browserDirectConnections(deps), deps)
