import type { PeerId } from '../bitswap/index.ts'
import type { Counts, Have } from './api.ts'
import type { Clock, Millis } from './clock.ts'

/** A server drops a client that has sent nothing for a minute. After that it does not count the peer any more. */
const COUNTED_MAX: Millis = 60_000
/** As many as a page has peers here. When the limit is reached, the counts keep further silent peers. */
const PEERS_MAX = 64

/**
 * Tabs that send nothing to this one although the server says that they are there: their network is gone. The server counts them
 * until its own timeout, and this tab knows better.
 */
export class SilentPeers {
  readonly #clock: Clock
  readonly #onChange: () => void
  readonly #peers = new Map<PeerId, { readonly have: Have }>()

  constructor(clock: Clock, onChange: () => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  add(peer: PeerId, have: Have): void {
    if (this.#peers.size >= PEERS_MAX) return
    const found = { have }
    this.#peers.set(peer, found)
    this.#clock.after(COUNTED_MAX, () => {
      if (this.#peers.get(peer) === found) this.delete(peer)
    })
  }

  /** The peer sends again, or the server does not count it any more. */
  delete(peer: PeerId): void {
    if (this.#peers.delete(peer)) this.#onChange()
  }

  clear(): void {
    this.#peers.clear()
  }

  /** The server's counts without these peers. This tab always counts. */
  correct(counts: Counts): Counts {
    if (this.#peers.size === 0) return counts
    const silent = [...this.#peers.values()]
    const watching = Math.max(1, counts.nodes.watching, counts.watching - silent.length)
    const without = (count: number, have: Have) => Math.max(0, count - silent.filter((each) => each.have === have).length)
    const holders = Math.min(watching, without(counts.holders, 'all'))
    return { ...counts, watching, holders, partial: Math.min(watching - holders, without(counts.partial, 'some')) }
  }
}
