import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'

/** A way to one peer, whatever carries it. */
export interface Peer {
  readonly id: PeerId
  /** Resolves when the whole message is on its way; rejects with a `PeerLost` when it never will be. */
  send(message: Bytes): Promise<void>
  /** Gives up what is not sent yet. */
  close(): void
}

/** The peer cannot be reached any more, this way. */
export class PeerLost extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'PeerLost'
  }
}
