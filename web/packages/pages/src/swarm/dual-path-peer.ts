import { isSameBytes, type Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'
import type { Peer } from './peer.ts'
import type { Clock, Millis } from './clock.ts'
import type { FirstRequest } from './first-request.ts'
import type { MessagePath, UnacknowledgedMessage } from './message-path.ts'
import { RelayPeer, type RelayPeerOptions } from './relay-peer.ts'

/** Shorter messages never wait for a direct connection. */
const HELD_BYTES_MIN = 128 << 10
/** The longest time that a message waits for a direct connection. A peer that it did not reach in time uses the relay. */
export const HELD_MAX: Millis = 600

export interface DualPathPeerOptions extends RelayPeerOptions {
  /** Whether blocks should wait for a direct connection to this peer, because one is likely to be up soon. */
  readonly isConnecting: (peer: PeerId) => boolean
}

/**
 * A peer reached through the relay, and directly while there is a direct connection. If the direct connection breaks,
 * messages that may not have arrived are sent through the relay under the same number. By that number, the other side
 * detects messages that it has read already.
 *
 * Short messages arrive in order, also when the path changes. A `cancel` that arrived after the `want-have` that follows it would
 * remove that want-have, and nobody would send it again. So the direct path begins with the short messages that may be late on
 * the relay, under their numbers: those that the server has not accepted, and the last ones that it has.
 */
export class DualPathPeer implements Peer {
  readonly id: PeerId
  readonly #relay: RelayPeer
  #direct: MessagePath | null = null
  #nextMessage: number
  #first: FirstRequest | null
  #isClosed = false
  readonly #clock: Clock
  readonly #isConnecting: () => boolean
  /** Messages that wait for the direct connection. Their number is bounded by `unsentBytes`, which the exchange limits. */
  #held: UnacknowledgedMessage[] = []
  #stopHolding: (() => void) | null = null
  /** Whether a connection did not come up in time. */
  #hasHeld = false
  /** The numbers of messages on the direct path that the server had accepted before. The relay never sends them again. */
  #accepted = new Set<number>()
  /** Bytes of all messages, sent and received, on both paths. */
  movedBytes = 0
  /** Bytes of messages that were neither sent nor given up. */
  unsentBytes = 0
  /** The numbers of messages with blocks that the peer may not have read, in the order in which they were sent. */
  readonly #unreadBlocks: number[] = []
  /** How many messages with blocks were sent. */
  blockMessages = 0

  /**
   * `first`: the number of the first message, or the request that the peer got with the join of this tab. The number is random,
   * because a peer that knew this tab before remembers the numbers it has read, and would drop new messages with the same numbers.
   */
  constructor(id: PeerId, options: DualPathPeerOptions, first: number | FirstRequest = 0) {
    this.id = id
    this.#first = typeof first === 'number' ? null : first
    this.#nextMessage = typeof first === 'number' ? first : first.id
    this.#relay = new RelayPeer(id, options)
    this.#clock = options.clock
    this.#isConnecting = () => options.isConnecting(id)
  }

  get path(): 'relay' | 'direct' {
    return this.#direct?.isUp === true ? 'direct' : 'relay'
  }

  /**
   * How many messages with blocks the peer has read. A message counts as read when the server has accepted it, because the relay has
   * no acknowledgements. A peer reads long messages in order, so one before these was lost if it was not read.
   */
  get acknowledgedMessages(): number {
    const unread = this.#unreadBlocks
    unread.splice(0, unread.findLastIndex((id) => !this.#isUnread(id)) + 1)
    return this.blockMessages - unread.length
  }

  #isUnread(id: number): boolean {
    return this.#direct?.hasUnread(id) === true || this.#relay.hasUnsent(id) || this.#held.some((held) => held.id === id)
  }

  send(message: Bytes, hasBlocks = false): Promise<void> {
    const first = this.#first
    this.#first = null
    const isFirst = first !== null && isSameBytes(first.message, message)
    // Another message has another number.
    if (first !== null && !isFirst) this.#takeNumber()
    const id = this.#takeNumber()
    if (hasBlocks) {
      this.blockMessages++
      this.#unreadBlocks.push(id)
    }
    this.movedBytes += message.length
    this.unsentBytes += message.length
    const sent = isFirst ? this.#confirmFirst(first, id) : this.#sendNow(message, id)
    return sent.finally(() => {
      this.unsentBytes -= message.length
    })
  }

  /** Sends the first message again if the server could not deliver it. */
  async #confirmFirst({ isDelivered, message }: FirstRequest, id: number): Promise<void> {
    if (!(await isDelivered)) await this.#relay.send(message, id)
  }

  #takeNumber(): number {
    const number = this.#nextMessage
    this.#nextMessage = (number + 1) % 2 ** 32
    return number
  }

  #sendNow(message: Bytes, id: number): Promise<void> {
    const isDirect = this.#direct?.isUp === true && !this.#isClosed
    const sent = isDirect ? this.#direct?.send(id, message) : this.#waits(message) ? this.#hold(id, message) : this.#relay.send(message, id)
    return sent ?? Promise.resolve()
  }

  /**
   * Uses the direct path for new messages, for short ones, and for long ones that have not begun. Long messages that have begun stay
   * on the relay.
   */
  useDirect(path: MessagePath): void {
    this.#direct = path
    if (!path.isUp || this.#isClosed) return
    const accepted = this.#relay.takeAccepted()
    this.#accepted = new Set(accepted.map(({ id }) => id))
    for (const { id, message } of accepted) path.send(id, message).catch(() => {})
    const taken = [...this.#relay.takeForDirect(), ...this.#takeHeld()]
    for (const { id, message, resolve, reject } of taken) path.send(id, message).then(resolve, reject)
  }

  /** Uses the relay again, because the direct path is gone or not usable for now. */
  useRelay(): void {
    for (const { id, message, resolve, reject } of this.#direct?.takeUnacknowledged() ?? []) {
      if (this.#accepted.has(id)) resolve()
      else this.#relay.send(message, id).then(resolve, reject)
    }
  }

  /** Tells the peer, on the direct path, that its message was read. */
  acknowledge(id: number): void {
    this.#direct?.acknowledge(id)
  }

  close(): void {
    this.#isClosed = true
    this.#relay.close()
    for (const { reject } of this.#direct?.takeUnacknowledged() ?? []) reject(new Error('closed'))
    this.#direct = null
    for (const { reject } of this.#takeHeld()) reject(new Error('closed'))
  }

  #waits(message: Bytes): boolean {
    return message.length >= HELD_BYTES_MIN && !this.#hasHeld && !this.#isClosed && this.#isConnecting()
  }

  #hold(id: number, message: Bytes): Promise<void> {
    this.#stopHolding ??= this.#clock.after(HELD_MAX, () => {
      this.#hasHeld = true
      for (const held of this.#takeHeld()) this.#relay.send(held.message, held.id).then(held.resolve, held.reject)
    })
    return new Promise((resolve, reject) => this.#held.push({ id, message, resolve, reject }))
  }

  #takeHeld(): UnacknowledgedMessage[] {
    this.#stopHolding?.()
    this.#stopHolding = null
    return this.#held.splice(0)
  }
}
