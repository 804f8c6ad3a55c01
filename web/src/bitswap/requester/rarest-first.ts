/** The request strategy: which block to request from which peer, and when to request it from another peer. */
import type { Cid } from '../../content/index.ts'
import { sortedPeers, type PeerId } from '../peer.ts'
import { MILLI, SECOND, transferTime, type Nanos } from '../time.ts'
import { Budget } from './budget.ts'
import { choose } from './choose-want.ts'
import type { PeerState, Request } from './peer-state.ts'
import { isFarFromTurn, requestOnlyCopy, soleRequest, takeOverRequest } from './rebalance.ts'
import { UNPROVEN_REQUESTS_MAX, type Requester } from './requester.ts'

/** In the endgame, how often idle peers are considered again. */
const ENDGAME_INTERVAL: Nanos = 100 * MILLI
/**
 * A seeder is fast if it delivers more than this many times the average of the other peers. A fast seeder is spared only
 * if the others together deliver this many times as much as all seeders.
 */
const FAST = 2
/** Timeouts in a row after which the only peer that has a block gets the request again. */
const TIMEOUTS_BEFORE_RETRY = 3
/** Message parts that every other peer may send before a peer that sends nothing times out. */
const PARTS_PER_TURN = 4
/** The number of timeouts of a peer that are attributed to our own link. */
const EXCUSED_TIMEOUTS_MAX = 16
/** The longest time during which a peer gets no requests after a timeout. */
const TIMED_OUT_MAX: Nanos = 30 * SECOND

/** Requests as many open wants as the peers that are ready can take. */
export function requestBlocks(requester: Requester, now: Nanos): void {
  if (requester.wants.size === 0) {
    requester.readyForRequests.clear()
    requester.unprovenReady.clear()
    requester.searches.pause()
  }
  const spread = requester.newlyHeldElsewhere
  requester.newlyHeldElsewhere = []
  for (const at of spread) requestOnlyCopy(requester, now, at)
  // Rounds of one block per peer, so that no peer takes everything that is left. The peer that delivers soonest is first.
  const ready: PeerId[] = []
  if (requester.requestedBytes < requester.limits.requestedBytesMax) {
    ready.push(...requester.readyForRequests)
    requester.readyForRequests.clear()
  }
  if (requester.unprovenRequests < UNPROVEN_REQUESTS_MAX) {
    ready.push(...requester.unprovenReady)
    requester.unprovenReady.clear()
  }
  let peers: { readonly neverAnswered: boolean; readonly takes: Nanos; readonly tieBreak: bigint; readonly peer: PeerId }[] = []
  for (const peer of sortedPeers(new Set(ready))) {
    const random = requester.rng.nextU64()
    const state = requester.peers.get(peer)
    if (state === undefined) continue
    // The usual latency counts too: it grows when other peers send requests to the same peer.
    const takes = state.expectedTime(requester.limits.blockBytesGuess) + (state.throughput.usualLatency ?? 0)
    peers.push({ neverAnswered: state.neverAnswered, takes, tieBreak: random, peer })
  }
  peers.sort((a, b) => Number(a.neverAnswered) - Number(b.neverAnswered) || a.takes - b.takes || (a.tieBreak < b.tieBreak ? -1 : 1))
  if (peers.length > 0) {
    const budget = new Budget(requester)
    while (peers.length > 0) peers = peers.filter(({ peer }) => requestOneBlock(requester, now, peer, budget))
  }
  const isEndgame = requester.wants.openSize === 0 && requester.wants.size > 0
  if (!isEndgame) requester.endgameAt = null
  else requester.endgameAt ??= now + ENDGAME_INTERVAL
}

/** Requests one more block from a peer. Returns whether there was one to request. */
function requestOneBlock(requester: Requester, now: Nanos, peer: PeerId, budget: Budget): boolean {
  const state = requester.peers.get(peer)
  if (state === undefined) return false
  const isFull = state.isUnproven ? requester.unprovenRequests >= UNPROVEN_REQUESTS_MAX : budget.isSpent(state)
  if (isFull) {
    requester.noteReadyForRequests(peer)
    return false
  }
  if (!state.hasRoom || state.timedOutUntil !== null) return false
  const random = requester.rng.nextU64()
  const known = choose(requester.wants, random, (at) => state.has.half(at))
  const mayGuess = state.providerHint === 'full' || (state.providerHint === 'one' && state.requested.size === 0)
  const chosen = known ?? (mayGuess ? choose(requester.wants, random, (at) => ~state.lacks.half(at)) : null)
  if (chosen === null) return state.requested.size === 0 && takeOverRequest(requester, now, peer)
  if (isTooSlowFor(requester, state, chosen)) return false
  if (budget.isReservedForOthers(now, state, chosen) || isReservedForSeeders(requester, state, chosen)) {
    requester.noteReadyForRequests(peer)
    return false
  }
  budget.noteRequested(state, requester.bytesOf(chosen))
  if (known === null && state.providerHint === 'one') state.providerHint = 'none'
  requester.request(now, chosen, peer)
  return true
}

/**
 * Whether a block should come from a peer that is not a seeder. A seeder is spared for blocks that only seeders have,
 * while enough is requested and the other peers deliver as much as the seeders. If the seeder is fast, the others must
 * deliver far more, because its uplink is there to be used. Urgent blocks are requested from seeders too.
 */
function isReservedForSeeders(requester: Requester, state: PeerState, at: number): boolean {
  const { live } = requester.wants
  const { holders } = requester.wants.get(at)
  if (holders < 2 || requester.requestedBytes < requester.enoughBytes) return false
  if (!state.has.hasAll(live) || requester.wants.urgentRank(at) !== null) return false
  let seeders = 0
  let seedersRate = 0
  let othersRate = 0
  for (const other of requester.peers.values()) {
    const rate = other.timedOutUntil === null ? other.throughput.rate : 0
    if (other.has.hasAll(live)) {
      seeders++
      seedersRate += rate
    } else {
      othersRate += rate
    }
  }
  const isFast = seedersRate * (requester.peers.size - seeders) > othersRate * seeders * FAST
  return holders > seeders && othersRate >= (isFast ? seedersRate * FAST : seedersRate)
}

/** Sets which blocks are requested first, in this order. Replaces the blocks that were urgent before. */
export function setUrgent(requester: Requester, now: Nanos, cids: readonly Cid[]): void {
  requester.wants.setUrgent(cids)
  prioritiseUrgent(requester, now)
  requester.noteAllReadyForRequests()
}

/** Cancels requests that would delay an urgent block, so that the block can be requested where it comes soonest. */
function prioritiseUrgent(requester: Requester, now: Nanos): void {
  for (const at of [...requester.wants.urgent()]) {
    const sole = soleRequest(requester, at)
    if (sole !== null && isFarFromTurn(sole.state, sole.request, now)) requester.cancelRequest(at, sole.peer)
    if (requester.wants.isOpen(at)) makeRoom(requester, now, at)
  }
}

/**
 * Makes room for an urgent block at one of its holders. Cancels the holder's latest requests that are not urgent and far
 * from their turn.
 */
function makeRoom(requester: Requester, now: Nanos, at: number): void {
  const holders = [...requester.peers].filter(([, state]) => state.timedOutUntil === null && state.mayHave(at))
  const hasRoom = (state: PeerState) => state.hasRoom && !new Budget(requester).isSpent(state)
  if (holders.some(([, state]) => hasRoom(state))) return
  for (const [peer, state] of holders) {
    for (let last = lastWaiting(requester, now, state); last !== null; last = lastWaiting(requester, now, state)) {
      requester.cancelRequest(last, peer)
      if (hasRoom(state)) return
    }
  }
}

/** The latest request to a peer that is not urgent and far from its turn. `null` if there is none. */
function lastWaiting(requester: Requester, now: Nanos, state: PeerState): number | null {
  let last: { readonly at: number; readonly request: Request } | null = null
  for (const [at, request] of state.requested) {
    if (requester.wants.urgentRank(at) !== null || !isFarFromTurn(state, request, now)) continue
    const isLater =
      last === null || request.at > last.request.at || (request.at === last.request.at && request.bytesAhead > last.request.bytesAhead)
    if (isLater) last = { at, request }
  }
  return last?.at ?? null
}

/** Whether, near the end, the other peers will deliver everything before this slow peer delivers this block. */
function isTooSlowFor(requester: Requester, state: PeerState, at: number): boolean {
  const left = requester.wants.openSize * requester.limits.blockBytesGuess
  if (left > requester.requestedBytes || requester.wants.get(at).holders < 2 || state.throughput.rate === 0) return false
  let rate = 0
  for (const other of requester.peers.values()) if (other.timedOutUntil === null) rate += other.throughput.rate
  const rest = transferTime(left + requester.requestedBytes, rate)
  return state.expectedTime(requester.bytesOf(at)) > rest * 2 + (state.throughput.minLatency ?? 0) * 2
}

/** Handles timeouts: marks silent peers, and requests their blocks from other peers. */
export function handleTick(requester: Requester, now: Nanos): void {
  const timedOut: { readonly peer: PeerId; readonly at: number }[] = []
  let requestedPeers = 0
  for (const state of requester.peers.values()) if (state.requested.size > 0) requestedPeers++
  for (const [peer, state] of requester.peers) {
    if (state.timedOutUntil !== null && state.timedOutUntil <= now) {
      state.timedOutUntil = null
      requester.noteReadyForRequests(peer)
    }
    const timeoutAt = state.timeoutAt()
    if (timeoutAt === null || timeoutAt > now) continue
    // If our own link is slow, all peers share it. A peer is not silent while the others got few turns. If nothing arrives
    // from any peer, it is.
    const others = requester.messageParts - state.partsAtReceive
    if (
      requester.messageParts > state.partsAtExcuse &&
      others < PARTS_PER_TURN * requestedPeers &&
      state.excusedTimeouts < EXCUSED_TIMEOUTS_MAX
    ) {
      state.excusedTimeouts++
      state.partsAtExcuse = requester.messageParts
      state.receivedAt = now
      continue
    }
    const wait = requester.limits.responseTimeout * 2 ** Math.min(state.timeouts, 8)
    state.timeouts++
    state.timedOutUntil = now + Math.min(wait, TIMED_OUT_MAX)
    for (const at of [...state.requested.keys()].sort((a, b) => a - b)) timedOut.push({ peer, at })
  }
  for (const { peer, at } of timedOut) {
    // The peer may only be busy. The cancel keeps it from sending a duplicate later.
    if (isAvailableElsewhere(requester, at)) {
      if (requester.cancelRequest(at, peer)) requester.totals.timeouts++
      continue
    }
    const state = requester.peers.get(peer)
    if (state !== undefined && (state.isUnproven || state.timeouts >= TIMEOUTS_BEFORE_RETRY)) requester.retry(at, peer)
  }
  if (requester.endgameAt !== null && requester.endgameAt <= now) {
    requester.endgameAt = null
    requester.noteAllReadyForRequests()
  }
  requester.scheduleTimeouts()
}

function isAvailableElsewhere(requester: Requester, at: number): boolean {
  for (const state of requester.peers.values()) if (state.timedOutUntil === null && state.has.has(at)) return true
  return false
}
