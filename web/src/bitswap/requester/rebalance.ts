/** Moves requests from busy or silent peers to peers that deliver sooner. */
import type { PeerId } from '../peer.ts'
import { MILLI, since, transferTime, type Nanos } from '../time.ts'
import { setBits } from './bits.ts'
import { choose, COMPARED_MAX } from './choose-want.ts'
import type { PeerState, Request } from './peer-state.ts'
import type { Requester } from './requester.ts'

/** The shortest time without block data after which a peer is assumed to serve other peers. */
const STANDSTILL_MIN: Nanos = 200 * MILLI
/** The interval at which an idle peer is considered for a request of another peer. */
const TAKE_OVER_INTERVAL: Nanos = 50 * MILLI
/** The shortest distance from its turn at which a request can be cancelled in time. */
const CANCEL_MARGIN_MIN: Nanos = 100 * MILLI

/**
 * Replaces a request, because another peer now has its block too. The peer gets a request for a block that it alone has.
 * So a single seeder sends blocks that no other peer has yet, and the leechers get the rest from each other.
 */
export function requestOnlyCopy(requester: Requester, now: Nanos, at: number): void {
  const sole = soleRequest(requester, at)
  if (sole === null || !isFarFromTurn(sole.state, sole.request, now)) return
  const rarest = choose(requester.wants, requester.rng.nextU64(), (half) => sole.state.has.half(half))
  if (rarest === null || requester.wants.get(rarest).holders > 1) return
  requester.cancelRequest(at, sole.peer)
  requester.request(now, rarest, sole.peer)
}

/**
 * Moves a request of another peer to this idle peer. In the endgame, it may duplicate the request instead. Returns whether
 * the idle peer got a request.
 */
export function takeOverRequest(requester: Requester, now: Nanos, peer: PeerId): boolean {
  const state = requester.peers.get(peer)
  if (state === undefined) return false
  if (state.takeOverCheckedAt !== null && since(now, state.takeOverCheckedAt) < TAKE_OVER_INTERVAL) return false
  state.takeOverCheckedAt = now
  if (state.neverAnswered) return false
  const { live } = requester.wants
  let best: { wait: Nanos; at: number; other: PeerId; isSafe: boolean } | null = null
  let compared = 0
  for (const at of setBits(live.words, (half) => live.half(half) & state.has.half(half))) {
    if (compared++ >= COMPARED_MAX) break
    const sole = soleRequest(requester, at)
    if (sole === null) continue
    // A peer that had this request before does not get it again. Otherwise two peers that send nothing would swap it forever.
    const mayTakeOver = requester.wants.openSize === 0 && !state.lateBlocks.has(requester.wants.get(at).cid)
    const isStuck = mayTakeOver && isStandingStill(state, sole.state, sole.request, now)
    const found = isStuck ? { wait: since(now, sole.request.at), isSafe: true } : comesSooner(state, sole.state, sole.request, now)
    if (found === null) continue
    const { wait, isSafe } = found
    const isBetter = best === null || (isSafe === best.isSafe ? wait > best.wait : isSafe)
    if (isBetter) best = { wait, at, other: sole.peer, isSafe }
  }
  if (best === null) return false
  if (best.isSafe) {
    requester.cancelRequest(best.at, best.other)
  } else {
    const budget = Math.floor((requester.wantedTotal * requester.limits.endgameDuplicatesPerMille) / 1000)
    if (requester.wants.openSize > 0 || requester.endgameRequests >= Math.max(1, budget)) return false
    requester.endgameRequests++
    requester.totals.endgameRequests++
  }
  requester.request(now, best.at, peer)
  return true
}

/**
 * Whether an idle peer would deliver a block much sooner than the peer it is requested from. `wait` is the remaining time
 * at that peer. `isSafe` says whether a cancel reaches it before it sends the block.
 */
function comesSooner(idle: PeerState, current: PeerState, request: Request, now: Nanos): { wait: Nanos; isSafe: boolean } | null {
  const { throughput } = current
  const delivered = throughput.deliveredBytes - request.deliveredBefore
  const base = throughput.minLatency ?? 0
  const before = throughput.rate === 0 ? 0 : transferTime(Math.max(0, request.bytesAhead - delivered), throughput.rate)
  const wait = before + Math.min(transferTime(request.bytes, throughput.rate), since(now, request.at))
  if (wait <= idle.expectedTime(request.bytes) * 2 + base) return null
  // A cancel that arrives before the block's turn causes no duplicate. A request that many others overtook is deferred by
  // the peer.
  const isOvertaken = delivered > request.bytesAhead + 8 * request.bytes
  return { wait, isSafe: isOvertaken || current.neverAnswered || before > base * 2 + 50 * MILLI }
}

/**
 * Whether the peer seems to serve other peers: it has sent no block data for longer than usual, and the request has waited
 * as long as the idle peer usually takes. So the block is unlikely to be on its way.
 */
function isStandingStill(idle: PeerState, current: PeerState, request: Request, now: Nanos): boolean {
  const usual = (current.throughput.minLatency ?? 0) * 2 + STANDSTILL_MIN
  const isAtStandstill =
    !current.isMidMessage && since(now, Math.max(current.blockDataAt, request.at)) > Math.max(usual, current.longestGap)
  return isAtStandstill && idle.throughput.usualLatency !== null && since(now, request.at) > idle.throughput.usualLatency
}

/** The only peer a block is requested from, and that request. `null` if there are none or several. */
export function soleRequest(requester: Requester, at: number): { peer: PeerId; state: PeerState; request: Request } | null {
  const requestedFrom = requester.wants.findAt(at)?.requestedFrom ?? []
  const [peer] = requestedFrom
  if (peer === undefined || requestedFrom.length > 1) return null
  const state = requester.peers.get(peer)
  const request = state?.requested.get(at)
  return state === undefined || request === undefined ? null : { peer, state, request }
}

/** Whether a block is so far from its turn that a cancel arrives in time. */
export function isFarFromTurn({ throughput, deliveredAt }: PeerState, request: Request, now: Nanos): boolean {
  if (!request.isSent) return true
  const guard = Math.max(CANCEL_MARGIN_MIN, (throughput.minLatency ?? 0) * 2)
  if (throughput.rate === 0) return since(now, request.at) > CANCEL_MARGIN_MIN
  const ahead = Math.max(0, request.bytesAhead - (throughput.deliveredBytes - request.deliveredBefore)) + request.bytes
  const turn = Math.max(request.at, deliveredAt) + transferTime(ahead, throughput.rate)
  // An overdue block waits for the peer's other transfers.
  return turn > now + guard || turn + guard < now
}
