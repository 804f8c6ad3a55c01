import type { PeerId } from '../peer.ts'
import type { Requester } from '../requester.ts'
import type { Nanos } from '../time.ts'

/** Timeouts in a row after which the only peer that has a block gets the request again. */
const TIMEOUTS_BEFORE_RETRY = 3

/** Marks peers that were silent for too long, and requests their blocks from other peers. */
export function handleTimeouts(requester: Requester, now: Nanos): void {
  const silent: { readonly peer: PeerId; readonly at: number }[] = []
  let requestedPeers = 0
  for (const { requests } of requester.peers.values()) if (requests.size > 0) requestedPeers++
  for (const [peer, state] of requester.peers) {
    const { silence } = state
    if (silence.unresponsiveUntil !== null && silence.unresponsiveUntil <= now) {
      silence.unresponsiveUntil = null
      requester.noteReadyForRequests(peer)
    }
    const timeoutAt = state.timeoutAt()
    if (timeoutAt === null || timeoutAt > now || silence.excuse(now, requester.partsReceived, requestedPeers)) continue
    silence.timeOut(now, requester.limits.responseTimeout)
    const requests = [...state.requests].map(([at]) => at)
    for (const at of requests.sort((a, b) => a - b)) silent.push({ peer, at })
  }
  for (const { peer, at } of silent) {
    // The peer may only be busy. The cancel keeps it from sending a duplicate later.
    if (isAvailableElsewhere(requester, at)) {
      if (requester.cancelRequest(at, peer)) requester.totals.silentRequests++
      continue
    }
    const state = requester.peers.get(peer)
    if (state !== undefined && (state.isUnproven || state.silence.timeouts >= TIMEOUTS_BEFORE_RETRY)) requester.retry(at, peer)
  }
}

function isAvailableElsewhere(requester: Requester, at: number): boolean {
  for (const { silence, blocks } of requester.peers.values()) if (!silence.isUnresponsive && blocks.has.has(at)) return true
  return false
}
