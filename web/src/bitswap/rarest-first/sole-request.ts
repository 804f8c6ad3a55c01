import type { PeerId } from '../peer.ts'
import type { Requester } from '../requester.ts'
import type { BlockRequest } from '../requester/peer-requests.ts'
import type { PeerState } from '../requester/peer-state.ts'

/** The only peer a block is requested from, and that request. `null` if there are none or several. */
export function soleRequest(requester: Requester, at: number): { peer: PeerId; state: PeerState; request: BlockRequest } | null {
  const requestedFrom = requester.wants.findAt(at)?.requestedFrom ?? []
  const [peer] = requestedFrom
  if (peer === undefined || requestedFrom.length > 1) return null
  const state = requester.peers.get(peer)
  const request = state?.requests.get(at)
  return state === undefined || request === undefined ? null : { peer, state, request }
}
