declare const brand: unique symbol
/** The id of a peer on a page's topic: sixteen hex digits. */
export type PeerId = string & { readonly [brand]: 'PeerId' }

/** A map from peers to what is known of them, ordered by id, so that the same inputs lead to the same outputs. */
export class PeerMap<Known> extends Map<PeerId, Known> {
  /** Sorts on each call, because peers connect seldom and are iterated often. */
  override set(peer: PeerId, known: Known): this {
    const all = [...this].filter(([other]) => other !== peer)
    all.push([peer, known])
    this.clear()
    for (const [name, of] of all.sort(([a], [b]) => comparePeers(a, b))) super.set(name, of)
    return this
  }
}

export function sortedPeers(peers: Iterable<PeerId>): PeerId[] {
  return [...peers].sort(comparePeers)
}

export function comparePeers(a: PeerId, b: PeerId): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** The peer that a frame begins with: its sender, or its receiver. */
export function peerOf(frame: ArrayBuffer): PeerId {
  return new DataView(frame).getBigUint64(0).toString(16).padStart(16, '0') as PeerId
}
