import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'
import type { Peer } from './peer.ts'
import { RelayPeer, type RelayPeerOptions } from './relay-peer.ts'

/** A message that a way was given, and that may not have arrived. */
export interface Unread {
  readonly id: number
  readonly message: Bytes
  readonly resolve: () => void
  readonly reject: (reason: Error) => void
}

/** A way beside the relay. */
export interface Way {
  /** Whether messages may be given to it. */
  readonly isUp: boolean
  /** Resolves when the message is on its way; it may still come back, see `takeBack`. */
  send(id: number, message: Bytes): Promise<void>
  /** Tells the other side that a message of its was read. */
  tellRead(id: number): void
  /** Everything that may not have arrived, and is not its affair any more. */
  takeBack(): Unread[]
}

/**
 * A peer by relay at once, and directly while there is a direct way. When that breaks, what may not have arrived goes by
 * relay under its old number, by which the other side knows what it has read already.
 */
export class TwoWayPeer implements Peer {
  readonly id: PeerId
  readonly #relay: RelayPeer
  #direct: Way | null = null
  #nextMessage: number
  #isClosed = false
  /** Bytes of messages, both ways, over either way. */
  movedBytes = 0
  /** Bytes of messages that have not left, nor are given up. */
  unsentBytes = 0

  /**
   * Messages are numbered from `firstMessage` on. Who knew us before, and was forgotten, remembers what it has read: it
   * must not take new messages for those.
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

  /** What is begun by relay ends there; what waits, and what comes now, goes this way. */
  goDirect(way: Way): void {
    this.#direct = way
    if (!way.isUp || this.#isClosed) return
    for (const { id, message, resolve, reject } of this.#relay.takeBack()) way.send(id, message).then(resolve, reject)
  }

  /** The direct way is gone, or not to be used for now. */
  goByRelay(): void {
    for (const { id, message, resolve, reject } of this.#direct?.takeBack() ?? []) {
      this.#relay.send(message, id).then(resolve, reject)
    }
  }

  /** Tells it, on the direct way, that a message that came there was read. */
  tellRead(id: number): void {
    this.#direct?.tellRead(id)
  }

  close(): void {
    this.#isClosed = true
    this.#relay.close()
    for (const { reject } of this.#direct?.takeBack() ?? []) reject(new Error('closed'))
    this.#direct = null
  }
}
