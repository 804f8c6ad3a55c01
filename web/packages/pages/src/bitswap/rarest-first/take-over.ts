/** Moves requests from busy or silent peers to peers that deliver sooner. */
import { ones } from '../bit-set.ts'
import type { PeerId } from '../peer.ts'
import type { Requester } from '../requester.ts'
import type { BlockRequest } from '../requester/peer-requests.ts'
import type { PeerState } from '../requester/peer-state.ts'
import { MILLI, since, transferTime, type Nanos } from '../time.ts'
import { COMPARED_MAX } from './selection.ts'

/** The shortest time without block data after which a peer is assumed to serve other peers. */
const STANDSTILL_MIN: Nanos = 200 * MILLI
/** The interval at which an idle peer is considered for a request of another peer. */
const CHECK_INTERVAL: Nanos = 50 * MILLI

/**
 * Moves a request of another peer to this idle peer. In the endgame, it may duplicate the request instead. Returns whether
 * the idle peer got a request. `among`: the wants that may move, as bits.
 */
export function takeOverRequest(requester: Requester, now: Nanos, peer: PeerId, among: (half: number) => number): boolean {
  const state = requester.peers.get(peer)
  if (state === undefined) return false
  if (state.takeOverCheckedAt !== null && since(now, state.takeOverCheckedAt) < CHECK_INTERVAL) return false
  state.takeOverCheckedAt = now
  if (state.neverAnswered) return false
  const { live } = requester.wants
  let best: { wait: Nanos; at: number; other: PeerId; isSafe: boolean } | null = null
  let compared = 0
  for (const at of ones(live.words, (half) => live.half(half) & state.blocks.has.half(half) & among(half))) {
    if (compared++ >= COMPARED_MAX) break
    const sole = requester.soleRequest(at)
    if (sole === null) continue
    // A peer that had this request before does not get it again. Otherwise two peers that send nothing would swap it forever.
    const mayTakeOver = requester.wants.openSize === 0 && !state.counts.late.has(requester.wants.get(at).cid)
    const isStuck = mayTakeOver && isStandingStill(state, sole.state, sole.request, now)
    const found = isStuck ? { wait: since(now, sole.request.requestedAt), isSafe: true } : gain(state, sole.state, sole.request, now)
    if (found === null) continue
    const { wait, isSafe } = found
    const isBetter = best === null || (isSafe === best.isSafe ? wait > best.wait : isSafe)
    if (isBetter) best = { wait, at, other: sole.peer, isSafe }
  }
  if (best === null) return false
  if (best.isSafe) {
    requester.cancelRequest(best.at, best.other)
  } else {
    const budget = Math.floor((requester.progress.wantedTotal * requester.limits.endgameDuplicatesPerMille) / 1000)
    if (requester.wants.openSize > 0 || requester.progress.endgameRequests >= Math.max(1, budget)) return false
    requester.progress.endgameRequests++
    requester.totals.endgameRequests++
  }
  requester.request(now, best.at, peer)
  return true
}

/**
 * Whether an idle peer would deliver a block much sooner than the peer it is requested from. `wait` is the remaining time
 * at that peer. `isSafe` says whether a cancel reaches it before it sends the block.
 */
function gain(idle: PeerState, busy: PeerState, request: BlockRequest, now: Nanos): { wait: Nanos; isSafe: boolean } | null {
  const { delivery } = busy
  const delivered = delivery.delivered - request.deliveredBefore
  const base = delivery.baseLatency ?? 0
  const before = delivery.rate === 0 ? 0 : transferTime(Math.max(0, request.bytesAhead - delivered), delivery.rate)
  const wait = before + Math.min(transferTime(request.bytes, delivery.rate), since(now, request.requestedAt))
  if (wait <= idle.timeFor(request.bytes) * 2 + base) return null
  // A cancel that arrives before the block's turn causes no duplicate. A request that many others overtook is deferred by
  // the peer.
  const isOvertaken = delivered > request.bytesAhead + 8 * request.bytes
  return { wait, isSafe: isOvertaken || busy.neverAnswered || before > base * 2 + 50 * MILLI }
}

/**
 * Whether the peer seems to serve other peers: it has sent no block data for longer than usual, and the request has waited
 * as long as the idle peer usually takes. So the block is unlikely to be on its way.
 */
function isStandingStill(idle: PeerState, busy: PeerState, request: BlockRequest, now: Nanos): boolean {
  const usual = (busy.delivery.baseLatency ?? 0) * 2 + STANDSTILL_MIN
  const isAtStandstill =
    !busy.silence.isSending && since(now, Math.max(busy.silence.partAt, request.requestedAt)) > Math.max(usual, busy.silence.longestGap)
  return isAtStandstill && idle.delivery.usualLatency !== null && since(now, request.requestedAt) > idle.delivery.usualLatency
}
