/** The reason why there is no direct connection to a peer, as far as this side knows. */
export type NoDirectReason =
  /** This browser has no WebRTC. */
  | 'absent'
  /** The peer is a node, which has no WebRTC. */
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
  | { readonly kind: 'calling' }
  | { readonly kind: 'up' }
  /** The connection broke a moment ago and may come back. */
  | { readonly kind: 'mending' }
  /** `again`: milliseconds until the next attempt. `null` if there will be none. */
  | { readonly kind: 'none'; readonly why: NoDirectReason; readonly failures: number; readonly again: number | null }
