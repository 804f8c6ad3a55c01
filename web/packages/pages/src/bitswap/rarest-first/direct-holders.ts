import type { Requester } from '../requester.ts'
import type { PeerState } from '../requester/peer-state.ts'

/** Below this rate, in bytes a second, direct connections are slow, and the relay is used beside them. */
const SLOW_RATE = 256 << 10

/**
 * Decides which blocks may be requested over the relay: those that direct connections do not bring as well. Two of them are needed,
 * because one alone may be slow.
 */
export class DirectHolders {
  /** For each peer with a direct connection, the blocks that it may have, in halves of 32 bits. */
  readonly #mayHave: ((half: number) => number)[] = []
  /** The sum of their rates, in bytes a second. */
  #rate = 0
  /** How many of them are asked for blocks now. */
  #asked = 0

  constructor(requester: Requester) {
    for (const { isDirect, neverAnswered, silence, blocks, delivery, requests, isUnproven } of requester.peers.values()) {
      if (!isDirect || neverAnswered || silence.isUnresponsive) continue
      this.#mayHave.push(blocks.providerHint === 'likely' ? (half) => ~blocks.lacks.half(half) : (half) => blocks.has.half(half))
      this.#rate += delivery.rate
      if (requests.size > 0 && !isUnproven) this.#asked++
    }
  }

  /** Whether other peers must leave blocks to these. */
  get areSeveral(): boolean {
    return this.#mayHave.length > 1
  }

  /**
   * The blocks that may be requested from a peer, as bits. While two peers send blocks directly, the others on the relay are asked
   * for none: the blocks that only those have will spread. They are asked if the direct connections are slow, or slower than the peer.
   */
  blocksFor({ isDirect, delivery }: PeerState): (half: number) => number {
    const areSlow = this.#rate > 0 && this.#rate < Math.max(SLOW_RATE, delivery.rate)
    if (isDirect || !this.areSeveral || areSlow) return () => -1
    return this.#asked > 1 ? () => 0 : (half) => ~this.#atTwo(half)
  }

  /** The blocks that two of these peers have. */
  #atTwo(at: number): number {
    let once = 0
    let twice = 0
    for (const mayHave of this.#mayHave) {
      const bits = mayHave(at)
      twice |= once & bits
      once |= bits
    }
    return twice
  }
}
