import { comparePeers, type PeerId } from '../peer.ts'
import type { Requester } from '../requester.ts'
import type { BlockRequest } from '../requester/peer-requests.ts'
import type { PeerState } from '../requester/peer-state.ts'
import type { Nanos } from '../time.ts'
import { RequestBudget } from './budget-of-all-peers.ts'
import { isFarFromTurn, turnOf } from './send-estimate.ts'

/** Gets urgent blocks sooner that are requested already, and makes room for the others. */
export function prioritise(requester: Requester, now: Nanos): void {
  // Peers that send a more urgent block in its turn.
  const busy = new Set<PeerId>()
  for (const at of [...requester.wants.urgent()]) {
    const sole = requester.soleRequest(at)
    if (sole !== null) {
      hasten(requester, now, at, sole, !busy.has(sole.peer))
      const request = sole.state.requests.get(at)
      if (request?.isSent === true && !request.isUrgent) busy.add(sole.peer)
    }
    if (requester.wants.isOpen(at)) makeRoom(requester, now, at)
  }
}

/**
 * Gets an urgent block sooner that is requested from one peer.
 *
 * If another peer may send it, a want that is far from its turn is reopened, and requested from the peer that sends it soonest.
 * Otherwise the peer keeps the request and changes its priority: a cancel and a second request would bring a block twice that is on
 * its way. An overdue block may be on its way too, so the request moves only to a peer with room for it.
 *
 * The priority changes only if it `mayOvertake`: a more urgent block that keeps its turn at the peer would otherwise come after it, and
 * with a peer that pauses, not before the timeout. When that block is here, the rest is urgent again.
 */
function hasten(
  requester: Requester,
  now: Nanos,
  at: number,
  { peer: server, state, request }: { peer: PeerId; state: PeerState; request: BlockRequest },
  mayOvertake: boolean,
): void {
  const others = holdersOf(requester, at).filter(([peer]) => peer !== server)
  switch (turnOf(state, request, now)) {
    case 'near':
      return
    case 'unsent':
    case 'ahead':
      if (others.length > 0) requester.cancelRequest(at, server)
      else if (mayOvertake) requester.raise(at, server)
      return
    case 'overdue': {
      const budget = new RequestBudget(requester)
      const free = others.filter(([, other]) => hasRoom(other, budget))
      const [soonest] = free.sort(([a, one], [b, two]) => one.timeFor(request.bytes) - two.timeFor(request.bytes) || comparePeers(a, b))
      if (soonest === undefined) return
      requester.cancelRequest(at, server)
      requester.request(now, at, soonest[0])
      return
    }
  }
}

/** The peers that answer, and may send the block. */
function holdersOf(requester: Requester, at: number): [PeerId, PeerState][] {
  return [...requester.peers].filter(([, state]) => !state.silence.isUnresponsive && state.mayHave(at))
}

function hasRoom(state: PeerState, budget: RequestBudget): boolean {
  return state.hasRoom && !budget.isSpent(state)
}

/**
 * Makes room for an urgent block at one of its holders. Cancels the holder's latest requests that are not urgent and far
 * from their turn.
 */
function makeRoom(requester: Requester, now: Nanos, at: number): void {
  const holders = holdersOf(requester, at)
  const roomAt = (state: PeerState) => hasRoom(state, new RequestBudget(requester))
  if (holders.some(([, state]) => roomAt(state))) return
  for (const [peer, state] of holders) {
    for (let last = lastWaiting(requester, now, state); last !== null; last = lastWaiting(requester, now, state)) {
      requester.cancelRequest(last, peer)
      if (roomAt(state)) return
    }
  }
}

/**
 * The latest request to a peer that is not urgent and far from its turn. `null` if there is none. One that is overdue only if there
 * is no other: its block may be on its way, and would come in vain.
 */
function lastWaiting(requester: Requester, now: Nanos, state: PeerState): number | null {
  let last: { readonly at: number; readonly request: BlockRequest; readonly isOverdue: boolean } | null = null
  for (const [at, request] of state.requests) {
    if (requester.wants.urgentPlace(at) !== null || !isFarFromTurn(state, request, now)) continue
    const isOverdue = turnOf(state, request, now) === 'overdue'
    if (last === null || isBefore(last, { request, isOverdue })) last = { at, request, isOverdue }
  }
  return last?.at ?? null
}

interface Waiting {
  readonly request: BlockRequest
  readonly isOverdue: boolean
}

function isBefore(one: Waiting, other: Waiting): boolean {
  if (one.isOverdue !== other.isOverdue) return one.isOverdue
  if (one.request.requestedAt !== other.request.requestedAt) return one.request.requestedAt < other.request.requestedAt
  return one.request.bytesAhead < other.request.bytesAhead
}
