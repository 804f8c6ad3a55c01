import type { PeerId } from '../bitswap/index.ts'
import type { Bytes } from '../content/index.ts'
import type { Clock } from './clock.ts'
import type { Segment, UnsentMessage } from './segment.ts'

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

/** A path for messages besides the relay. Messages may be sent on it between its events `up` and `down`. */
export interface MessagePath {
  readonly isUp: boolean
  send(message: UnsentMessage): void
  /** Whether the other side may not have read a message that was sent on it. */
  hasUnread(id: number): boolean
  /** Tells the other side that its message was read. */
  acknowledge(id: number): void
}

export type DirectEvent =
  | { readonly kind: 'up'; readonly peer: PeerId; readonly path: MessagePath }
  /** The peer may not have read these messages. */
  | { readonly kind: 'down'; readonly peer: PeerId; readonly unread: readonly UnsentMessage[] }
  /** A call has ended. Its partial messages will not complete. */
  | { readonly kind: 'ended'; readonly peer: PeerId }
  | { readonly kind: 'segment'; readonly peer: PeerId; readonly segment: Segment }
  /** Nearly all of a message has left this browser. */
  | { readonly kind: 'sent'; readonly peer: PeerId; readonly message: UnsentMessage }
  /** Nothing arrives from a peer for a moment, although it should. */
  | { readonly kind: 'quiet'; readonly peer: PeerId }
  /** The peer sent what no honest peer sends. */
  | { readonly kind: 'misbehaved'; readonly peer: PeerId }

/** The direct connections of a page: calls peers, and answers their calls. */
export interface DirectConnections {
  /** The calls in progress and the connections. */
  readonly size: number
  /** Connects to this peer, unless a call is in progress or not allowed now. */
  connect(peer: PeerId): void
  /** A peer sent a signal. It can be anything. */
  handleSignal(peer: PeerId, signal: Uint8Array): void
  /** The state of the direct connection to a peer. */
  status(peer: PeerId): DirectStatus
  /** The peer has left or was dropped. */
  forget(peer: PeerId): void
  /** Closes all connections, for example when the page is hidden. There may be new ones later. */
  closeAll(): void
  close(): void
}

export interface DirectConnectionsDeps {
  readonly clock: Clock
  readonly random: () => number
  /** The id of this tab on the page. `null` while it has none. */
  readonly self: () => PeerId | null
  /** The URLs of the STUN server, one for each of its ports. Empty if there is none. */
  readonly stun: () => readonly string[]
  /** Sends a signal to a peer. Resolves with whether it was delivered. */
  readonly send: (to: PeerId, signal: Bytes) => Promise<boolean>
  readonly emit: (event: DirectEvent) => void
}

/** Loads the code of direct connections. */
export type LoadDirectConnections = () => Promise<(deps: DirectConnectionsDeps) => DirectConnections>
