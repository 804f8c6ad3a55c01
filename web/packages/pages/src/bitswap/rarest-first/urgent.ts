import type { Requester } from '../requester.ts'
import type { BlockRequest } from '../requester/peer-requests.ts'
import type { PeerState } from '../requester/peer-state.ts'
import type { Nanos } from '../time.ts'
import { RequestBudget } from './request-budget.ts'
import { isFarFromTurn } from './send-estimate.ts'

/** Cancels requests that would delay an urgent block, so that the block can be requested where it comes soonest. */
export function prioritise(requester: Requester, now: Nanos): void {
  for (const at of [...requester.wants.urgent()]) {
    const sole = requester.soleRequest(at)
    if (sole !== null && isFarFromTurn(sole.state, sole.request, now)) requester.cancelRequest(at, sole.peer)
    if (requester.wants.isOpen(at)) makeRoom(requester, now, at)
  }
}

/**
 * Makes room for an urgent block at one of its holders. Cancels the holder's latest requests that are not urgent and far
 * from their turn.
 */
function makeRoom(requester: Requester, now: Nanos, at: number): void {
  const holders = [...requester.peers].filter(([, state]) => !state.silence.isUnresponsive && state.mayHave(at))
  const hasRoom = (state: PeerState) => state.hasRoom && !new RequestBudget(requester).isSpent(state)
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
  let last: { readonly at: number; readonly request: BlockRequest } | null = null
  for (const [at, request] of state.requests) {
    if (requester.wants.urgentPlace(at) !== null || !isFarFromTurn(state, request, now)) continue
    const isLater =
      last === null ||
      request.requestedAt > last.request.requestedAt ||
      (request.requestedAt === last.request.requestedAt && request.bytesAhead > last.request.bytesAhead)
    if (isLater) last = { at, request }
  }
  return last?.at ?? null
}
