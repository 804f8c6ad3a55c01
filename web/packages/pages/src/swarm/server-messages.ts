import type { PeerId } from '../bitswap/index.ts'
import type { Counts, Have, PeerKind } from './api.ts'

/** Reads the server's messages on a page's topic. The input can be anything. */

export interface PeerInfo {
  readonly peer: PeerId
  readonly have: Have
  readonly kind: PeerKind
}

/** Peers read from one list. The server sends only a few. */
const PEERS_MAX = 64

export function readPeerInfo(payload: unknown): PeerInfo | null {
  const { peer, have, kind } = fields(payload)
  if (typeof peer !== 'string' || !/^[0-9a-f]{16}$/.test(peer)) return null
  return {
    peer: peer as PeerId,
    have: have === 'all' || have === 'some' ? have : 'none',
    // Tabs do not send their kind.
    kind: kind === 'node' ? 'node' : 'tab',
  }
}

export function readPeerList(payload: unknown): PeerInfo[] {
  const { peers } = fields(payload)
  if (!Array.isArray(peers)) return []
  return peers.slice(0, PEERS_MAX).flatMap((each) => readPeerInfo(each) ?? [])
}

export function readCounts(payload: unknown): Counts | null {
  const counts = readTriple(payload)
  // The server leaves out the counts of nodes if there are none.
  return counts && { ...counts, nodes: readTriple(fields(payload).nodes) ?? { watching: 0, holders: 0, partial: 0 } }
}

function readTriple(payload: unknown): Counts['nodes'] | null {
  const { watching, holders, partial } = fields(payload)
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
  const { last_available: seconds } = fields(payload)
  return typeof seconds === 'number' && seconds >= 0 && Number.isFinite(seconds) ? seconds * 1000 : null
}

export function readJoinReply(payload: unknown): JoinReply {
  const { counts, stun } = fields(payload)
  return {
    self: readPeerInfo(payload)?.peer ?? null,
    peers: readPeerList(payload),
    counts: readCounts(counts),
    stun: readStun(stun),
  }
}

function readStun(payload: unknown): StunServer | null {
  const { host, port, second_port: second } = fields(payload)
  if (!isPort(port)) return null
  const secondPort = isPort(second) ? second : null
  if (host === undefined) return { host: null, port, secondPort }
  const isHost = typeof host === 'string' && /^(?:[\w.-]+|\[[\da-f:.]+\])$/i.test(host)
  return isHost ? { host, port, secondPort } : null
}

function isPort(value: unknown): value is number {
  return isCount(value) && value > 0 && value <= 65_535
}

export function readReason(payload: unknown): string {
  const { reason } = fields(payload)
  return typeof reason === 'string' ? reason : 'refused'
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

interface Fields {
  peer?: unknown
  have?: unknown
  kind?: unknown
  peers?: unknown
  counts?: unknown
  watching?: unknown
  holders?: unknown
  partial?: unknown
  nodes?: unknown
  reason?: unknown
  last_available?: unknown
  stun?: unknown
  host?: unknown
  port?: unknown
  second_port?: unknown
}

function fields(payload: unknown): Fields {
  return typeof payload === 'object' && payload !== null ? payload : {}
}
