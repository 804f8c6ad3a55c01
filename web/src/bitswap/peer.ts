declare const brand: unique symbol
/** Who a peer is on a page's topic: sixteen hex digits. */
export type PeerId = string & { readonly [brand]: 'PeerId' }

/** What is known of each peer, in the order of their names, so that the same inputs lead to the same outputs. */
export class PeerMap<Known> {
  readonly #peers = new Map<PeerId, Known>()

  get size(): number {
    return this.#peers.size
  }

  has(peer: PeerId): boolean {
    return this.#peers.has(peer)
  }

  get(peer: PeerId): Known | undefined {
    return this.#peers.get(peer)
  }

  /** Peers come and go seldom, so this may cost more than it does to look at them. */
  set(peer: PeerId, known: Known): void {
    const others = [...this.#peers].filter(([other]) => other !== peer)
    this.#peers.clear()
    for (const [name, of] of [...others, [peer, known] as const].sort(([a], [b]) => compare(a, b))) this.#peers.set(name, of)
  }

  delete(peer: PeerId): void {
    this.#peers.delete(peer)
  }

  keys(): Iterable<PeerId> {
    return this.#peers.keys()
  }

  values(): Iterable<Known> {
    return this.#peers.values()
  }

  [Symbol.iterator](): Iterator<[PeerId, Known]> {
    return this.#peers[Symbol.iterator]()
  }
}

/** In the order of their names. */
export function sorted(peers: Iterable<PeerId>): PeerId[] {
  return [...peers].sort(compare)
}

export function compare(a: PeerId, b: PeerId): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
