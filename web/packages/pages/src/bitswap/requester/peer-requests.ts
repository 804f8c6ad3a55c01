import type { Nanos } from '../time.ts'
import type { DeliveryRate } from './request-window.ts'

/** A block that is requested from a peer. */
export interface BlockRequest {
  readonly requestedAt: Nanos
  /** Whether the want-block was sent to the peer, and need not be sent again. */
  isSent: boolean
  /** Whether the want-block was sent with the priority of an urgent block. */
  isUrgent: boolean
  /** Whether the want-block was sent before, so that two answers may arrive. */
  isRepeated: boolean
  /** The length of the block, estimated if it is unknown. */
  readonly bytes: number
  /** Bytes that the peer had delivered when the block was requested. */
  readonly deliveredBefore: number
  /** Bytes requested from the peer before this block and not delivered at that time. */
  readonly bytesAhead: number
  /** Whether the bytes count towards the total requested from all peers. */
  isCounted: boolean
}

/** Whether the peer may have the want-block, and may answer it. */
export function mayBeAnswered({ isSent, isRepeated }: BlockRequest): boolean {
  return isSent || isRepeated
}

/** The blocks that are requested from one peer, by the numbers of their wants. */
export class PeerRequests {
  readonly #requests = new Map<number, BlockRequest>()
  #bytes = 0

  /** Bytes of all these blocks. */
  get bytes(): number {
    return this.#bytes
  }

  get size(): number {
    return this.#requests.size
  }

  insert(now: Nanos, at: number, bytes: number, { delivered }: DeliveryRate): BlockRequest {
    const request = {
      requestedAt: now,
      isSent: false,
      isUrgent: false,
      isRepeated: false,
      bytes,
      deliveredBefore: delivered,
      bytesAhead: this.#bytes,
      isCounted: true,
    }
    if (!this.#requests.has(at)) this.#bytes += bytes
    this.#requests.set(at, request)
    return request
  }

  remove(at: number): BlockRequest | null {
    const request = this.#requests.get(at)
    if (request === undefined) return null
    this.#requests.delete(at)
    this.#bytes -= request.bytes
    return request
  }

  get(at: number): BlockRequest | undefined {
    return this.#requests.get(at)
  }

  [Symbol.iterator](): Iterator<[number, BlockRequest]> {
    return this.#requests[Symbol.iterator]()
  }
}
