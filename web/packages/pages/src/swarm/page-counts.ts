import type { PeerId } from '../bitswap/index.ts'
import type { Counts, Have } from './api.ts'
import type { Millis } from './clock.ts'

/** A server drops a client that has sent nothing for a minute. After that it does not count the peer any more. */
const COUNTED_MAX: Millis = 60_000
/** The server sends changed counts at most once a second. Counts that are older than this are not. */
const COUNTS_LATE_MAX: Millis = 2_000
/** As many as a page has peers here. When the limit is reached, the counts keep further silent peers. */
const PEERS_MAX = 64

interface SilentPeer {
  readonly have: Have
  readonly since: Millis
  /** When the server does not count it any more. */
  until: Millis
  /** Whether it has left, and the server's last counts may still have it. */
  hasLeft: boolean
}

/**
 * The server's counts of a page, without tabs that send nothing to this one: their network is gone. The server counts them until its own
 * timeout, and this tab knows better.
 */
export class PageCounts {
  /** The server's counts. */
  #counts: Counts = { watching: 0, holders: 0, partial: 0, nodes: { watching: 0, holders: 0, partial: 0 } }
  #isAvailable: boolean | null = null
  #lastAvailableAt: Millis | null = null
  readonly #silent = new Map<PeerId, SilentPeer>()

  /** The server sent new counts. */
  applyCounts(counts: Counts): void {
    for (const [peer, { hasLeft }] of this.#silent) if (hasLeft) this.#silent.delete(peer)
    this.#counts = counts
    this.#isAvailable = counts.holders > 0
    if (this.#isAvailable) this.#lastAvailableAt = null
  }

  /** The server reports that nobody has had a full copy since then. */
  applyLastAvailable(at: Millis): void {
    if (this.#isAvailable === false) this.#lastAvailableAt = at
  }

  /** The first holder has come, or the last one has left. */
  setAvailable(now: Millis, isAvailable: boolean): void {
    this.#isAvailable = isAvailable
    this.#lastAvailableAt = isAvailable ? null : now
  }

  addSilent(now: Millis, peer: PeerId, have: Have): void {
    if (this.#silent.size < PEERS_MAX) this.#silent.set(peer, { have, since: now, until: now + COUNTED_MAX, hasLeft: false })
  }

  /** A silent peer sends again. */
  deleteSilent(peer: PeerId): void {
    this.#silent.delete(peer)
  }

  clearSilent(): void {
    this.#silent.clear()
  }

  /** The server has noticed that a peer is gone. Its last counts may still have the peer. */
  noteLeft(now: Millis, peer: PeerId): void {
    const silent = this.#silent.get(peer)
    if (silent === undefined) return
    silent.hasLeft = true
    silent.until = Math.min(silent.until, now + COUNTS_LATE_MAX)
  }

  handleTick(now: Millis): void {
    for (const [peer, { until }] of this.#silent) if (until <= now) this.#silent.delete(peer)
  }

  /** When to call `handleTick`. `Infinity`: not without a change. */
  nextWake(): Millis {
    return Math.min(...[...this.#silent.values()].map(({ until }) => until))
  }

  /** The counts, which never contradict themselves. This tab always counts. */
  get counts(): Counts {
    const counts = this.#counts
    if (this.#silent.size === 0) return counts
    const silent = [...this.#silent.values()]
    const watching = Math.max(1, counts.nodes.watching, counts.watching - silent.length)
    const without = (count: number, have: Have) => Math.max(0, count - silent.filter((each) => each.have === have).length)
    const holders = Math.min(watching, without(counts.holders, 'all'))
    return { ...counts, watching, holders, partial: Math.min(watching - holders, without(counts.partial, 'some')) }
  }

  /** Whether a peer has a full copy. `null` until the server has reported it. */
  get isAvailable(): boolean | null {
    return this.#holdersLostAt === null ? this.#isAvailable : false
  }

  /** When a peer last had a full copy. `null` while one has it, or if unknown. */
  get lastAvailableAt(): Millis | null {
    return this.#lastAvailableAt ?? this.#holdersLostAt
  }

  /** When the last holder fell silent that the server counts. `null` if another holder is there, or none was. */
  get #holdersLostAt(): Millis | null {
    if (this.#counts.holders === 0 || this.counts.holders > 0) return null
    const holders = [...this.#silent.values()].filter(({ have }) => have === 'all')
    return holders.length === 0 ? null : Math.max(...holders.map(({ since }) => since))
  }
}
