import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'
import type { Peer } from './peer.ts'
import type { MessagePath } from './message-path.ts'
import { RelayPeer, type RelayPeerOptions } from './relay-peer.ts'

/**
 * A peer reached through the relay, and directly while there is a direct connection. If the direct connection breaks,
 * messages that may not have arrived are sent through the relay under the same number. By that number, the other side
 * detects messages that it has read already.
 */
export class DualPathPeer implements Peer {
  readonly id: PeerId
  readonly #relay: RelayPeer
  #direct: MessagePath | null = null
  #nextMessage: number
  #isClosed = false
  /** Bytes of all messages, sent and received, on both paths. */
  movedBytes = 0
  /** Bytes of messages that were neither sent nor given up. */
  unsentBytes = 0

  /**
   * Messages are numbered from `firstMessage`. It is random, because a peer that knew this tab before remembers the
   * numbers it has read, and would drop new messages with the same numbers.
   */
  constructor(id: PeerId, options: RelayPeerOptions, firstMessage = 0) {
    this.id = id
    this.#nextMessage = firstMessage
    this.#relay = new RelayPeer(id, options)
  }

  get path(): 'relay' | 'direct' {
    return this.#direct?.isUp === true ? 'direct' : 'relay'
  }

  send(message: Bytes): Promise<void> {
    const id = this.#nextMessage
    this.#nextMessage = (this.#nextMessage + 1) % 2 ** 32
    this.movedBytes += message.length
    this.unsentBytes += message.length
    const isDirect = this.#direct?.isUp === true && !this.#isClosed
    const sent = isDirect ? this.#direct?.send(id, message) : this.#relay.send(message, id)
    return (sent ?? Promise.resolve()).finally(() => {
      this.unsentBytes -= message.length
    })
  }

  /**
   * Uses the direct path for messages that have not begun and for new ones. Messages that have begun stay on the relay.
   */
  useDirect(path: MessagePath): void {
    this.#direct = path
    if (!path.isUp || this.#isClosed) return
    for (const { id, message, resolve, reject } of this.#relay.takeUnsent()) path.send(id, message).then(resolve, reject)
  }

  /** Uses the relay again, because the direct path is gone or not usable for now. */
  useRelay(): void {
    for (const { id, message, resolve, reject } of this.#direct?.takeUnacknowledged() ?? []) {
      this.#relay.send(message, id).then(resolve, reject)
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
  }
}
