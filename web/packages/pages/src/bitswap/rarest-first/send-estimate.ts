import type { BlockRequest } from '../requester/peer-requests.ts'
import type { PeerState } from '../requester/peer-state.ts'
import { MILLI, since, transferTime, type Nanos } from '../time.ts'

/** The shortest distance from its turn at which a request can be cancelled in time. */
const WAIT_MIN: Nanos = 100 * MILLI

/** Whether a block is so far from its turn that a cancel arrives in time. */
export function isFarFromTurn({ delivery, counts }: PeerState, request: BlockRequest, now: Nanos): boolean {
  if (!request.isSent) return true
  const guard = Math.max(WAIT_MIN, (delivery.baseLatency ?? 0) * 2)
  if (delivery.rate === 0) return since(now, request.requestedAt) > WAIT_MIN
  const ahead = Math.max(0, request.bytesAhead - (delivery.delivered - request.deliveredBefore)) + request.bytes
  const turn = Math.max(request.requestedAt, counts.usefulAt) + transferTime(ahead, delivery.rate)
  // An overdue block waits for the peer's other transfers.
  return turn > now + guard || turn + guard < now
}
