/** A network that prevents a direct connection, on this side, at the peer, or on both. */
export type Hindrance =
  /** The network lets no UDP through. */
  | 'no-udp-here'
  | 'no-udp-there'
  | 'no-udp-both'
  /** The router uses another outer port for each peer. */
  | 'symmetric-here'
  | 'symmetric-there'
  | 'symmetric-both'
  /** One network has IPv6 only, and the other one IPv4 only. */
  | 'ip-versions'

/** The reason why there is no direct connection to a peer, as far as this side knows. */
export type NoDirectReason =
  | Hindrance
  /** This browser has no WebRTC. */
  | 'absent'
  /** The peer is a node. A node calls this tab, or has no WebRTC. */
  | 'node'
  /** The peer did not answer. It may have no WebRTC. */
  | 'unanswered'
  /** Both sides sent their addresses, and no connection came up. */
  | 'unreachable'
  /** This browser does not reveal its addresses. */
  | 'hidden-here'
  /** The peer's browser does not reveal its addresses. */
  | 'hidden-there'
  /** There was a connection, and it broke. */
  | 'cut'
  /** One side has as many connections as a tab may have. */
  | 'busy'

/** The state of the direct connection to a peer. */
export type DirectStatus =
  /** Too few bytes have been exchanged to be worth one. */
  | { readonly kind: 'untried' }
  /** `hindrance`: what will probably prevent it. `null` if nothing is known. */
  | { readonly kind: 'calling'; readonly hindrance: Hindrance | null }
  | { readonly kind: 'up' }
  /** The connection broke a moment ago and may come back. */
  | { readonly kind: 'mending' }
  /** `again`: milliseconds until the next attempt. `null` if there will be none. */
  | { readonly kind: 'none'; readonly why: NoDirectReason; readonly failures: number; readonly again: number | null }
