declare const brand: unique symbol
/** The id of a peer on a page's topic: sixteen hex digits. */
export type PeerId = string & { readonly [brand]: 'PeerId' }

/** A map from peers to what is known of them, ordered by id, so that the same inputs lead to the same outputs. */
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

  /** Sorts on each call, because peers connect seldom and are iterated often. */
  set(peer: PeerId, known: Known): void {
    const others = [...this.#peers].filter(([other]) => other !== peer)
    this.#peers.clear()
    for (const [name, of] of [...others, [peer, known] as const].sort(([a], [b]) => comparePeers(a, b))) this.#peers.set(name, of)
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

export function sortedPeers(peers: Iterable<PeerId>): PeerId[] {
  return [...peers].sort(comparePeers)
}

export function comparePeers(a: PeerId, b: PeerId): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
