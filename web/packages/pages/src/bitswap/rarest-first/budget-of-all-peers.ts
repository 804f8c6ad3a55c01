import { multiplyDivide, since, type Nanos } from '../time.ts'
import type { Requester } from '../requester.ts'
import type { PeerState } from '../requester/peer-state.ts'

/**
 * A peer is slow if its rate is this many times below the mean rate over bytes, and a block takes a second or longer.
 */
const SLOWER = 4
/**
 * Slow peers get at most one part in this many of the total window for blocks that other peers have too. They get more
 * if they deliver a larger part of all bytes. Otherwise requests to slow peers would fill the window, and fast peers
 * would get none.
 */
const SLOW_PART = 8
/** After this many response timeouts without a block, slow peers get any request. */
const SILENCE_TIMEOUTS = 10

/** The amount that may be requested from all peers together, and from slow peers. */
export class RequestBudget {
  readonly #requester: Requester
  /** The sum of all peers' rates, and of their squares. */
  #rates = 0
  #squares = 0
  /** The sum of the slow peers' rates. */
  #slowRates = 0
  /** Bytes requested from slow peers. */
  #slowBytes = 0

  constructor(requester: Requester) {
    this.#requester = requester
    for (const { delivery, silence } of requester.peers.values()) {
      if (silence.isUnresponsive) continue
      this.#rates += delivery.rate
      this.#squares += delivery.rate * delivery.rate
    }
    for (const state of requester.peers.values()) {
      if (state.silence.isUnresponsive) continue
      if (this.#isSlow(state)) this.#slowRates += state.delivery.rate
      this.addRequest(state, state.requests.bytes)
    }
  }

  /**
   * Whether nothing more should be requested from a peer. More than two round trips' worth would wait in the peer's
   * queue and be committed too early. Bytes requested from slow peers do not reduce what fast peers may get.
   */
  isSpent(state: PeerState): boolean {
    const { requestedBytes, limits, progress } = this.#requester
    const counted = this.#isSlow(state) ? requestedBytes : requestedBytes - this.#slowBytes
    return counted >= progress.delivery.windowBytes || requestedBytes >= limits.requestedBytesMax
  }

  /**
   * Whether a block should come from another peer, because this one is slow. Does not hold if nothing arrives from the
   * others.
   */
  isForFasterPeers(now: Nanos, state: PeerState, at: number): boolean {
    const { limits, wants, progress } = this.#requester
    const hasProgress = since(now, progress.lastBlockAt) < limits.responseTimeout * SILENCE_TIMEOUTS
    if (wants.get(at).holders < 2 || !hasProgress || !this.#isSlow(state)) return false
    const window = Math.min(progress.delivery.windowBytes, limits.requestedBytesMax)
    const part = multiplyDivide(window, Math.min(this.#slowRates, this.#rates), Math.max(1, this.#rates))
    return this.#slowBytes >= Math.max(part, Math.floor(window / SLOW_PART))
  }

  addRequest(state: PeerState, bytes: number): void {
    if (this.#isSlow(state)) this.#slowBytes += bytes
  }

  /** The mean is over bytes, not over peers. A peer of unknown rate is not slow. */
  #isSlow({ delivery: { rate } }: PeerState): boolean {
    return rate > 0 && rate < this.#requester.progress.delivery.bytesOfBlocks(1) && rate * SLOWER * this.#rates < this.#squares
  }
}
