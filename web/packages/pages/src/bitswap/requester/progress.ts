import type { Limits } from '../limits.ts'
import { multiplyDivide, since, type Nanos } from '../time.ts'
import { DeliveryRate } from './request-window.ts'

/** Blocks to request from all peers together at least. */
const BLOCKS_REQUESTED_MIN = 16

/** The rate of all peers together since the first want. */
export class Progress {
  readonly delivery: DeliveryRate
  lastBlockAt: Nanos = 0
  /** Blocks wanted since there was last nothing wanted. */
  wantedTotal = 0
  /** Second requests among those, for blocks that were requested already. */
  endgameRequests = 0
  /** When the first want was added, and how many bytes had arrived by then. */
  #started = { from: 0, before: 0 }

  constructor(limits: Limits) {
    this.delivery = new DeliveryRate(limits, BLOCKS_REQUESTED_MIN)
  }

  /** The first want was added. */
  start(now: Nanos): void {
    this.lastBlockAt = now
    this.#started = { from: now, before: this.delivery.delivered }
  }

  /** The last want was removed. */
  finish(): void {
    this.wantedTotal = this.endgameRequests = 0
  }

  recordBlock(now: Nanos, bytes: number, from: DeliveryRate, limits: Limits): void {
    this.delivery.blendLatency(from)
    this.delivery.recordBlock(now, bytes, limits)
    this.lastBlockAt = now
  }

  /**
   * The time that this many blocks take at the mean rate since something is wanted. The recent rate can be far higher,
   * because the blocks of several peers often end at the same time.
   */
  timeFor(blocks: number): Nanos {
    const { from, before } = this.#started
    const bytes = this.delivery.delivered - before
    return bytes === 0 ? 0 : multiplyDivide(this.delivery.bytesOfBlocks(blocks), since(this.lastBlockAt, from), bytes)
  }
}
