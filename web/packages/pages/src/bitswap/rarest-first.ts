/** The request strategy: which block to request from which peer, and when to request it from another peer. */
import type { Cid } from '../content/index.ts'
import { sortedPeers, type PeerId } from './peer.ts'
import { DirectHolders } from './rarest-first/direct-holders.ts'
import { requestOnlyCopy } from './rarest-first/new-holder.ts'
import { RequestBudget } from './rarest-first/budget-of-all-peers.ts'
import { isLeftToLeechers, isTooSlowFor, rarest } from './rarest-first/selection.ts'
import { takeOverRequest } from './rarest-first/take-over.ts'
import { handleTimeouts } from './rarest-first/timeouts.ts'
import { prioritise } from './rarest-first/urgent.ts'
import type { Requester } from './requester.ts'
import { MILLI, type Nanos } from './time.ts'

/** In the endgame, how often idle peers are considered again. */
const ENDGAME_INTERVAL: Nanos = 100 * MILLI
/** Requests to unproven peers at most, one block each. */
const UNPROVEN_REQUESTS_MAX = 8

/** Requests as many open wants as the peers that are ready can take. */
export function requestBlocks(requester: Requester, now: Nanos): void {
  if (requester.wants.size === 0) {
    requester.readyForRequests.proven.clear()
    requester.readyForRequests.unproven.clear()
    requester.searches.pause()
  }
  const spread = requester.newHolders
  requester.newHolders = []
  for (const at of spread) requestOnlyCopy(requester, now, at)
  // Rounds of one block per peer, so that no peer takes everything that is left. The peer that delivers soonest is first.
  const ready: PeerId[] = []
  if (requester.requestedBytes < requester.limits.requestedBytesMax) {
    ready.push(...requester.readyForRequests.proven)
    requester.readyForRequests.proven.clear()
  }
  if (requester.unprovenRequests < UNPROVEN_REQUESTS_MAX) {
    ready.push(...requester.readyForRequests.unproven)
    requester.readyForRequests.unproven.clear()
  }
  let peers: { readonly neverAnswered: boolean; readonly takes: Nanos; readonly tieBreak: bigint; readonly peer: PeerId }[] = []
  for (const peer of sortedPeers(new Set(ready))) {
    const random = requester.rng.nextU64()
    const state = requester.peers.get(peer)
    if (state === undefined) continue
    // The usual latency counts too: it grows when other peers send requests to the same peer.
    const takes = state.timeFor(requester.limits.blockBytesEstimate) + (state.delivery.usualLatency ?? 0)
    peers.push({ neverAnswered: state.neverAnswered, takes, tieBreak: random, peer })
  }
  peers.sort((a, b) => Number(a.neverAnswered) - Number(b.neverAnswered) || a.takes - b.takes || (a.tieBreak < b.tieBreak ? -1 : 1))
  if (peers.length > 0) {
    const budget = new RequestBudget(requester)
    const direct = new DirectHolders(requester)
    while (peers.length > 0) peers = peers.filter(({ peer }) => requestOne(requester, now, peer, budget, direct))
  }
  const isEndgame = requester.wants.openSize === 0 && requester.wants.size > 0
  if (!isEndgame) requester.endgameCheckAt = null
  else requester.endgameCheckAt ??= now + ENDGAME_INTERVAL
}

/** Requests one more block from a peer. Returns whether there was one to request. */
function requestOne(requester: Requester, now: Nanos, peer: PeerId, budget: RequestBudget, direct: DirectHolders): boolean {
  const state = requester.peers.get(peer)
  if (state === undefined) return false
  const isSpent = state.isUnproven ? requester.unprovenRequests >= UNPROVEN_REQUESTS_MAX : budget.isSpent(state)
  if (isSpent) {
    requester.noteReadyForRequests(peer)
    return false
  }
  if (!state.hasRoom || state.silence.isUnresponsive) return false
  const random = requester.rng.nextU64()
  const among = direct.blocksFor(state)
  const known = rarest(requester.wants, random, (half) => state.blocks.has.half(half) & among(half))
  const mayGuess = state.blocks.providerHint === 'likely' || (state.blocks.providerHint === 'unknown' && state.requests.size === 0)
  const chosen = known ?? (mayGuess ? rarest(requester.wants, random, (half) => ~state.blocks.lacks.half(half) & among(half)) : null)
  if (chosen === null) {
    // The peers with a direct connection may leave.
    if (!state.isDirect && direct.areSeveral) requester.noteReadyForRequests(peer)
    return state.requests.size === 0 && takeOverRequest(requester, now, peer, among)
  }
  if (isTooSlowFor(requester, state, chosen)) return false
  if (budget.isForFasterPeers(now, state, chosen) || isLeftToLeechers(requester, state, chosen)) {
    requester.noteReadyForRequests(peer)
    return false
  }
  budget.addRequest(state, requester.blockBytes(chosen))
  if (known === null && state.blocks.providerHint === 'unknown') state.blocks.providerHint = 'unlikely'
  requester.request(now, chosen, peer)
  return true
}

/** Sets which blocks are requested first, in this order. Replaces the blocks that were urgent before. */
export function setUrgent(requester: Requester, now: Nanos, cids: readonly Cid[]): void {
  requester.wants.setUrgent(cids)
  prioritise(requester, now)
  requester.noteAllReadyForRequests()
}

/** Handles timeouts, and considers idle peers again in the endgame. */
export function handleTick(requester: Requester, now: Nanos): void {
  handleTimeouts(requester, now)
  if (requester.endgameCheckAt !== null && requester.endgameCheckAt <= now) {
    requester.endgameCheckAt = null
    requester.noteAllReadyForRequests()
  }
  requester.updateNextTimeout()
}
