import { onesFrom } from '../bit-set.ts'
import type { Requester } from '../requester.ts'
import type { PeerState } from '../requester/peer-state.ts'
import { transferTime } from '../time.ts'
import type { Wants } from '../requester/wants.ts'

/** The number of wants that are compared before one is chosen. Further wants are not considered. */
export const COMPARED_MAX = 4096
/**
 * A seeder is fast if it delivers more than this many times the average of the other peers. A fast seeder is spared only
 * if the others together deliver this many times as much as all seeders.
 */
const FAST_SEEDER = 2

/**
 * The open want of a set to request first, or `null` if the set has none. Urgent wants come first, in their order. Then
 * comes the want of the highest urgency, among those the rarest, and among those the first after a random position.
 */
export function rarest(wants: Wants, random: bigint, among: (half: number) => number): number | null {
  for (const at of wants.urgent()) {
    if (wants.isOpen(at) && ((among(at >>> 5) >>> (at & 31)) & 1) === 1) return at
  }
  for (const open of wants.open()) {
    const start = Number(random % BigInt(open.words))
    // Random within the word too. Otherwise all peers would begin at multiples of 64.
    const turn = Number((random >> 32n) % 64n)
    let best: { readonly holders: number; readonly at: number } | null = null
    let compared = 0
    for (const at of onesFrom(open.words, (half) => open.half(half) & among(half), start, turn)) {
      const { holders } = wants.get(at)
      if (best === null || holders < best.holders) best = { holders, at }
      if (++compared >= COMPARED_MAX) break
    }
    if (best !== null) return best.at
  }
  return null
}

/**
 * Whether a block should come from a peer that is not a seeder. A seeder is spared for blocks that only seeders have,
 * while enough is requested and the other peers deliver as much as the seeders. If the seeder is fast, the others must
 * deliver far more, because its uplink is there to be used. Urgent blocks are requested from seeders too.
 */
export function isLeftToLeechers(requester: Requester, state: PeerState, at: number): boolean {
  const { live } = requester.wants
  const { holders } = requester.wants.get(at)
  const window = Math.min(requester.progress.delivery.windowBytes, requester.limits.requestedBytesMax)
  if (holders < 2 || requester.requestedBytes < Math.floor(window / 2)) return false
  if (!state.blocks.has.hasAll(live) || requester.wants.urgentPlace(at) !== null) return false
  let seeders = 0
  let seedersRate = 0
  let othersRate = 0
  for (const other of requester.peers.values()) {
    const rate = !other.silence.isUnresponsive ? other.delivery.rate : 0
    if (other.blocks.has.hasAll(live)) {
      seeders++
      seedersRate += rate
    } else {
      othersRate += rate
    }
  }
  const isFast = seedersRate * (requester.peers.size - seeders) > othersRate * seeders * FAST_SEEDER
  return holders > seeders && othersRate >= (isFast ? seedersRate * FAST_SEEDER : seedersRate)
}

/** Whether, near the end, the other peers will deliver everything before this slow peer delivers this block. */
export function isTooSlowFor(requester: Requester, state: PeerState, at: number): boolean {
  const left = requester.wants.openSize * requester.limits.blockBytesEstimate
  if (left > requester.requestedBytes || requester.wants.get(at).holders < 2 || state.delivery.rate === 0) return false
  let rate = 0
  for (const other of requester.peers.values()) if (!other.silence.isUnresponsive) rate += other.delivery.rate
  const rest = transferTime(left + requester.requestedBytes, rate)
  return state.timeFor(requester.blockBytes(at)) > rest * 2 + (state.delivery.baseLatency ?? 0) * 2
}
