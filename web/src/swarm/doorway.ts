import type { PeerId } from '../bitswap/index.ts'
import type { Reach } from './api.ts'
import type { Switchboard, SwitchboardDeps } from './direct/index.ts'

/** Makes a switchboard, once its code has come. */
export type LoadSwitchboard = () => Promise<(deps: SwitchboardDeps) => Switchboard>

/** Signals that wait for the code that understands them; the next are dropped, and the caller tries again. */
const WAITING_MAX = 64

interface Waiting {
  readonly peer: PeerId
  readonly use: (switchboard: Switchboard) => void
}

/** The direct paths of a page, whose code is fetched when the first is needed. */
export class Doorway {
  readonly #load: LoadSwitchboard
  readonly #deps: SwitchboardDeps
  #switchboard: Switchboard | null = null
  #waiting: Waiting[] | null = null
  #isClosed = false

  constructor(load: LoadSwitchboard, deps: SwitchboardDeps) {
    this.#load = load
    this.#deps = deps
  }

  call(peer: PeerId): void {
    this.#with(peer, (switchboard) => switchboard.call(peer))
  }

  hear(peer: PeerId, signal: Uint8Array): void {
    this.#with(peer, (switchboard) => switchboard.hear(peer, signal))
  }

  /** How the direct way to a peer stands. */
  reach(peer: PeerId): Reach {
    return this.#switchboard?.reach(peer) ?? { kind: this.#waiting === null ? 'untried' : 'calling' }
  }

  forget(peer: PeerId): void {
    // Who is sent away for one signal is not to be heard with the next.
    if (this.#waiting !== null) this.#waiting = this.#waiting.filter((each) => each.peer !== peer)
    this.#switchboard?.forget(peer)
  }

  /** Closes all lines, as when the page is left; should it be shown again, there may be others. */
  hangUp(): void {
    this.#switchboard?.hangUp()
  }

  close(): void {
    this.#isClosed = true
    this.#waiting = null
    this.#switchboard?.close()
  }

  #with(peer: PeerId, use: (switchboard: Switchboard) => void): void {
    if (this.#isClosed) return
    if (this.#switchboard !== null) {
      use(this.#switchboard)
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
      this.#switchboard = make(this.#deps)
    } catch {
      // The code did not come: whatever needs it next tries again, and the relay goes on.
      this.#waiting = null
      return
    }
    for (let next = this.#waiting?.shift(); next !== undefined; next = this.#waiting?.shift()) next.use(this.#switchboard)
    this.#waiting = null
  }
}
