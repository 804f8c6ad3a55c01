import type { PeerId } from '../bitswap/index.ts'
import type { Counts, Have, PeerKind } from './api.ts'

/** What the server says on a page's topic, read from bytes that could be anything. */

export interface Introduction {
  readonly peer: PeerId
  readonly have: Have
  readonly kind: PeerKind
}

/** Peers read from one list; the server names a few. */
const INTRODUCTIONS_MAX = 64

export function readIntroduction(told: unknown): Introduction | null {
  const { peer, have, kind } = fields(told)
  if (typeof peer !== 'string' || !/^[0-9a-f]{16}$/.test(peer)) return null
  return {
    peer: peer as PeerId,
    have: have === 'all' || have === 'some' ? have : 'none',
    // Tabs say nothing of what they are.
    kind: kind === 'node' ? 'node' : 'tab',
  }
}

export function readIntroductions(told: unknown): Introduction[] {
  const { peers } = fields(told)
  if (!Array.isArray(peers)) return []
  return peers.slice(0, INTRODUCTIONS_MAX).flatMap((each) => readIntroduction(each) ?? [])
}

export function readCounts(told: unknown): Counts | null {
  const counts = readThree(told)
  // Of a page without nodes nothing is said of them.
  return counts && { ...counts, nodes: readThree(fields(told).nodes) ?? { watching: 0, holders: 0, partial: 0 } }
}

function readThree(told: unknown): Counts['nodes'] | null {
  const { watching, holders, partial } = fields(told)
  return isCount(watching) && isCount(holders) && isCount(partial) ? { watching, holders, partial } : null
}

/** Who answers STUN; without a host, the one that the page came from. */
export interface StunServer {
  readonly host: string | null
  readonly port: number
}

/** The reply to a join. */
export interface Welcome {
  readonly self: PeerId | null
  readonly peers: Introduction[]
  readonly counts: Counts | null
  readonly stun: StunServer | null
}

/** Milliseconds since a dark page was last lit; `null` where the server does not keep it. */
export function readLastLit(told: unknown): number | null {
  const { last_lit: seconds } = fields(told)
  return typeof seconds === 'number' && seconds >= 0 && Number.isFinite(seconds) ? seconds * 1000 : null
}

export function readWelcome(told: unknown): Welcome {
  const { counts, stun } = fields(told)
  return {
    self: readIntroduction(told)?.peer ?? null,
    peers: readIntroductions(told),
    counts: readCounts(counts),
    stun: readStun(stun),
  }
}

function readStun(told: unknown): StunServer | null {
  const { host, port } = fields(told)
  if (!isCount(port) || port === 0 || port > 65_535) return null
  if (host === undefined) return { host: null, port }
  const isHost = typeof host === 'string' && /^(?:[\w.-]+|\[[\da-f:.]+\])$/i.test(host)
  return isHost ? { host, port } : null
}

export function readReason(told: unknown): string {
  const { reason } = fields(told)
  return typeof reason === 'string' ? reason : 'refused'
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

interface Told {
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
  last_lit?: unknown
  stun?: unknown
  host?: unknown
  port?: unknown
}

function fields(told: unknown): Told {
  return typeof told === 'object' && told !== null ? told : {}
}
