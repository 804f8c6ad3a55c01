import type { PeerId } from '../../bitswap/index.ts'
import type { DirectConnections, DirectConnectionsDeps, DirectStatus, LoadDirectConnections } from '../direct-paths.ts'

/**
 * Calls that wait for the code. When the limit is reached, further calls are dropped, and the peer's attempt is
 * repeated later.
 */
const WAITING_MAX = 64

interface Waiting {
  readonly peer: PeerId
  readonly use: (connections: DirectConnections) => void
}

/** The direct connections of a page. Their code is loaded when the first one is needed. */
export class LazyDirectConnections implements DirectConnections {
  readonly #load: LoadDirectConnections
  readonly #deps: DirectConnectionsDeps
  #connections: DirectConnections | null = null
  #waiting: Waiting[] | null = null
  #isClosed = false

  constructor(load: LoadDirectConnections, deps: DirectConnectionsDeps) {
    this.#load = load
    this.#deps = deps
  }

  get size(): number {
    return this.#connections?.size ?? this.#waiting?.length ?? 0
  }

  connect(peer: PeerId): void {
    this.#with(peer, (connections) => connections.connect(peer))
  }

  handleSignal(peer: PeerId, signal: Uint8Array): void {
    this.#with(peer, (connections) => connections.handleSignal(peer, signal))
  }

  status(peer: PeerId): DirectStatus {
    return this.#connections?.status(peer) ?? (this.#waiting === null ? { kind: 'untried' } : { kind: 'calling', hindrance: null })
  }

  forget(peer: PeerId): void {
    // A peer that was dropped for one signal must not be processed further.
    if (this.#waiting !== null) this.#waiting = this.#waiting.filter((each) => each.peer !== peer)
    this.#connections?.forget(peer)
  }

  closeAll(): void {
    this.#connections?.closeAll()
  }

  close(): void {
    this.#isClosed = true
    this.#waiting = null
    this.#connections?.close()
  }

  #with(peer: PeerId, use: (connections: DirectConnections) => void): void {
    if (this.#isClosed) return
    if (this.#connections !== null) {
      use(this.#connections)
      return
    }
    if (this.#waiting === null) {
      this.#waiting = []
      void this.#fetch()
    }
    if (this.#waiting.length < WAITING_MAX) this.#waiting.push({ peer, use })
  }

  async #fetch(): Promise<void> {
    try {
      const make = await this.#load()
      if (this.#isClosed) return
      this.#connections = make(this.#deps)
    } catch {
      // The code did not load. The relay still works, and the next call tries again.
      this.#waiting = null
      return
    }
    for (let next = this.#waiting?.shift(); next !== undefined; next = this.#waiting?.shift()) next.use(this.#connections)
    this.#waiting = null
  }
}
