import { mayBeAnswered, type BlockRequest } from '../requester/peer-requests.ts'
import type { PeerState } from '../requester/peer-state.ts'
import { MILLI, since, transferTime, type Nanos } from '../time.ts'

/** The shortest distance from its turn at which a request can be cancelled in time. */
const WAIT_MIN: Nanos = 100 * MILLI

/**
 * When a peer will send a requested block, as far as its rate shows.
 *
 * - `unsent`: the request was not sent yet.
 * - `ahead`: a cancel arrives before the block is sent.
 * - `near`: the block may be on its way.
 * - `overdue`: the block should have arrived. Either it waits for other peers, or it is on its way and this tab has not read it yet.
 */
export type BlockTurn = 'unsent' | 'ahead' | 'near' | 'overdue'

export function turnOf({ delivery, counts }: PeerState, request: BlockRequest, now: Nanos): BlockTurn {
  if (!mayBeAnswered(request)) return 'unsent'
  if (delivery.rate === 0) return since(now, request.requestedAt) > WAIT_MIN ? 'overdue' : 'near'
  const guard = Math.max(WAIT_MIN, (delivery.baseLatency ?? 0) * 2)
  const ahead = Math.max(0, request.bytesAhead - (delivery.delivered - request.deliveredBefore)) + request.bytes
  const turn = Math.max(request.requestedAt, counts.usefulAt) + transferTime(ahead, delivery.rate)
  if (turn > now + guard) return 'ahead'
  return turn + guard < now ? 'overdue' : 'near'
}

/**
 * Whether a block is so far from its turn that a cancel arrives in time. An overdue block most often waits for other peers, so it
 * counts as far.
 */
export function isFarFromTurn(state: PeerState, request: BlockRequest, now: Nanos): boolean {
  return turnOf(state, request, now) !== 'near'
}
