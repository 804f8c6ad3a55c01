import type { PeerId } from '../bitswap/index.ts'
import type { Counts, Have } from './api.ts'
import type { Clock, Millis } from './clock.ts'

/** A server drops a client that has sent nothing for a minute. After that it does not count the peer any more. */
const COUNTED_MAX: Millis = 60_000
/** The server sends changed counts at most once a second. Counts that are older than this are not. */
const COUNTS_LATE_MAX: Millis = 2_000
/** As many as a page has peers here. When the limit is reached, the counts keep further silent peers. */
const PEERS_MAX = 64

/**
 * Tabs that send nothing to this one although the server says that they are there: their network is gone. The server counts them
 * until its own timeout, and this tab knows better.
 */
export class SilentPeers {
  readonly #clock: Clock
  readonly #onChange: () => void
  readonly #peers = new Map<PeerId, { readonly have: Have; readonly since: Millis }>()
  /** Those of them that have left, until the server sends counts without them. */
  readonly #left = new Set<PeerId>()

  constructor(clock: Clock, onChange: () => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  add(peer: PeerId, have: Have): void {
    if (this.#peers.size >= PEERS_MAX) return
    this.#peers.set(peer, { have, since: this.#clock.now() })
    this.#deleteAfter(COUNTED_MAX, peer)
  }

  /** The peer sends again. */
  delete(peer: PeerId): void {
    this.#left.delete(peer)
    if (this.#peers.delete(peer)) this.#onChange()
  }

  /** The server has noticed that the peer is gone. Its last counts may still have the peer. */
  noteLeft(peer: PeerId): void {
    if (!this.#peers.has(peer)) return
    this.#left.add(peer)
    this.#deleteAfter(COUNTS_LATE_MAX, peer)
  }

  /** The server sent new counts. */
  noteCounts(): void {
    for (const peer of [...this.#left]) this.delete(peer)
  }

  clear(): void {
    this.#peers.clear()
    this.#left.clear()
  }

  /** When the last one of them with a full copy fell silent. `null` if there is none. */
  get holderLostAt(): Millis | null {
    const holders = [...this.#peers.values()].filter(({ have }) => have === 'all')
    return holders.length === 0 ? null : Math.max(...holders.map(({ since }) => since))
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

  #deleteAfter(time: Millis, peer: PeerId): void {
    const found = this.#peers.get(peer)
    this.#clock.after(time, () => {
      if (this.#peers.get(peer) === found) this.delete(peer)
    })
  }
}
