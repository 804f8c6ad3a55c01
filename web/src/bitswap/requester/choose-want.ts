import { setBitsFrom } from './bits.ts'
import type { Wants } from './wants.ts'

/** The number of wants that are compared before one is chosen. Further wants are not considered. */
export const COMPARED_MAX = 4096

/**
 * The open want of a set to request first, or `null` if the set has none. Urgent wants come first, in their order. Then
 * comes the want of the highest urgency, among those the rarest, and among those the first after a random position.
 */
export function choose(wants: Wants, random: bigint, among: (half: number) => number): number | null {
  for (const at of wants.urgent()) {
    if (wants.isOpen(at) && ((among(at >>> 5) >>> (at & 31)) & 1) === 1) return at
  }
  for (const open of wants.open()) {
    const start = Number(random % BigInt(open.words))
    // Random within the word too. Otherwise all peers would begin at multiples of 64.
    const turn = Number((random >> 32n) % 64n)
    let best: { readonly holders: number; readonly at: number } | null = null
    let compared = 0
    for (const at of setBitsFrom(open.words, (half) => open.half(half) & among(half), start, turn)) {
      const { holders } = wants.get(at)
      if (best === null || holders < best.holders) best = { holders, at }
      if (++compared >= COMPARED_MAX) break
    }
    if (best !== null) return best.at
  }
  return null
}
