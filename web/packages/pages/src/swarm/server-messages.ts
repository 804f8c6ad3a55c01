import type { PeerId } from '../bitswap/index.ts'
import { isCount } from '../limits/count.ts'
import { fieldsOf } from '../limits/fields.ts'
import type { Counts, Have, PeerKind } from './api.ts'
import type { Millis } from './clock.ts'

/** Reads the server's messages on a page's topic. The input can be anything. */

/** The server's events on the topic of a page. */
export const EVENTS = ['relay', 'signal', 'peer_joined', 'peer_left', 'counts', 'available', 'unavailable', 'denied', 'elsewhere']

export interface PeerInfo {
  readonly peer: PeerId
  readonly have: Have
  readonly kind: PeerKind
}

/** Peers read from one list. The server sends only a few. */
const PEERS_MAX = 64

export function readPeerInfo(payload: unknown): PeerInfo | null {
  const { peer, have, kind } = fieldsOf(payload)
  if (typeof peer !== 'string' || !/^[0-9a-f]{16}$/.test(peer)) return null
  return {
    peer: peer as PeerId,
    have: have === 'all' || have === 'some' ? have : 'none',
    // Tabs do not send their kind.
    kind: kind === 'node' ? 'node' : 'tab',
  }
}

export function readPeerList(payload: unknown): PeerInfo[] {
  const { peers } = fieldsOf(payload)
  if (!Array.isArray(peers)) return []
  return peers.slice(0, PEERS_MAX).flatMap((each) => readPeerInfo(each) ?? [])
}

export function readCounts(payload: unknown): Counts | null {
  const counts = readTriple(payload)
  // The server leaves out the counts of nodes if there are none.
  const { nodes } = fieldsOf(payload)
  return counts && { ...counts, nodes: readTriple(nodes) ?? { watching: 0, holders: 0, partial: 0 } }
}

function readTriple(payload: unknown): Counts['nodes'] | null {
  const { watching, holders, partial } = fieldsOf(payload)
  return isCount(watching) && isCount(holders) && isCount(partial) ? { watching, holders, partial } : null
}

/** A STUN server. Without a host, the host of the page. */
export interface StunServer {
  readonly host: string | null
  readonly port: number
  /** Another port of the same server. With both, a symmetric NAT can be told from others. */
  readonly secondPort: number | null
}

export interface JoinReply {
  readonly self: PeerId | null
  readonly peers: PeerInfo[]
  readonly counts: Counts | null
  readonly stun: StunServer | null
}

/** Milliseconds since the page was last available. `null` if the server does not know. */
export function readLastAvailable(payload: unknown): number | null {
  const { last_available: seconds } = fieldsOf(payload)
  return typeof seconds === 'number' && seconds >= 0 && Number.isFinite(seconds) ? seconds * 1000 : null
}

export function readJoinReply(payload: unknown): JoinReply {
  const { counts, stun } = fieldsOf(payload)
  return {
    self: readPeerInfo(payload)?.peer ?? null,
    peers: readPeerList(payload),
    counts: readCounts(counts),
    stun: readStun(stun),
  }
}

function readStun(payload: unknown): StunServer | null {
  const { host, port, second_port: second } = fieldsOf(payload)
  if (!isPort(port) || !(host === undefined || (typeof host === 'string' && /^(?:[\w.-]+|\[[\da-f:.]+\])$/i.test(host)))) return null
  return { host: host ?? null, port, secondPort: isPort(second) ? second : null }
}

function isPort(value: unknown): value is number {
  return isCount(value) && value > 0 && value <= 65_535
}

export interface Refusal {
  readonly reason: string
  /** The time after which a retry may succeed. `null` if a retry is useless. */
  readonly retryAfter: Millis | null
  /** The limit that was reached. 0 if the server does not say. */
  readonly max: number
}

export function readRefusal(payload: unknown): Refusal {
  const { reason, retry_after_ms: retryAfter, max } = fieldsOf(payload)
  return {
    reason: typeof reason === 'string' ? reason : 'refused',
    retryAfter: isCount(retryAfter) ? retryAfter : null,
    max: isCount(max) ? max : 0,
  }
}
