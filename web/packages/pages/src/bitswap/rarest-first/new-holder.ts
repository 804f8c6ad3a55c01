import type { Requester } from '../requester.ts'
import type { Nanos } from '../time.ts'
import { rarest } from './selection.ts'
import { isFarFromTurn } from './send-estimate.ts'

/**
 * Replaces a request, because another peer now has its block too. The peer gets a request for a block that it alone has.
 * So a single seeder sends blocks that no other peer has yet, and the leechers get the rest from each other.
 */
export function requestOnlyCopy(requester: Requester, now: Nanos, at: number): void {
  const sole = requester.soleRequest(at)
  if (sole === null || !isFarFromTurn(sole.state, sole.request, now)) return
  const only = rarest(requester.wants, requester.rng.nextU64(), (half) => sole.state.blocks.has.half(half))
  if (only === null || requester.wants.get(only).holders > 1) return
  requester.cancelRequest(at, sole.peer)
  requester.request(now, only, sole.peer)
}
