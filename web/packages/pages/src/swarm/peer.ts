import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'

/** A peer to which messages can be sent. */
export interface Peer {
  readonly id: PeerId
  /**
   * Resolves when the whole message is sent. Rejects with a `PeerLost` if it never will be. `hasBlocks`: it counts in
   * `acknowledgedMessages`.
   */
  send(message: Bytes, hasBlocks?: boolean): Promise<void>
  /** Drops what is not sent yet. */
  close(): void
}

/** The peer cannot be reached any more on this path. */
export class PeerLost extends Error {
  override name = 'PeerLost'
}
