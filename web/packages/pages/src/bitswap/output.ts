import type { Cid } from '../content/index.ts'
import type { Block, Message, ReceivedMessage } from './message.ts'
import type { PeerId } from './peer.ts'

/** A block to fetch. */
export interface Want {
  readonly cid: Cid
  /** The length of the block in bytes. `null` if unknown. */
  readonly length: number | null
  /** Higher is requested first. Among equal urgencies, the rarest block is requested first. */
  readonly urgency: number
}

/** Everything that can happen to an exchange. */
export type Input =
  /** A peer connected. Nothing is sent to it before `writable`. A provider has all blocks of the page. */
  | { readonly kind: 'connected'; readonly peer: PeerId; readonly isProvider: boolean }
  | { readonly kind: 'disconnected'; readonly peer: PeerId }
  /** A whole message arrived. Ignored for peers that are not connected. */
  | ({ readonly kind: 'message'; readonly peer: PeerId } & ReceivedMessage)
  /** Part of a message arrived. */
  | { readonly kind: 'partial-message'; readonly peer: PeerId }
  /** Messages reach a peer directly from now on, or over the relay again. Over the relay until the first of these inputs. */
  | { readonly kind: 'path'; readonly peer: PeerId; readonly isDirect: boolean }
  /** The send buffer of a peer has this much room now. */
  | { readonly kind: 'writable'; readonly peer: PeerId; readonly roomBytes: number }
  /**
   * The peer has read this many messages with blocks, of those that were sent to it since it connected. Earlier ones that it has not
   * read are lost. Until then, a repeated request for a block is ignored that has left the send buffer: the request has crossed the
   * block. A driver whose peers acknowledge messages passes 0 when the peer connects, and then the number before each message that
   * the peer sends.
   */
  | { readonly kind: 'acknowledged'; readonly peer: PeerId; readonly messages: number }
  /** A block is in the store: received, or added by the page. */
  | { readonly kind: 'stored'; readonly cid: Cid; readonly length: number }
  /** The answer to `lookup`. `length` is `null` if the block is not in the store. */
  | { readonly kind: 'lookup-result'; readonly cid: Cid; readonly length: number | null }
  /** The answer to `read`. `block` is `null` if it cannot be read. */
  | { readonly kind: 'read'; readonly peer: PeerId; readonly cid: Cid; readonly block: Block | null }
  /** More blocks to fetch. They must not be in the store. */
  | { readonly kind: 'want'; readonly wants: readonly Want[] }
  | { readonly kind: 'cancel-wants'; readonly cids: readonly Cid[] }
  /** The blocks to request first, in this order. Replaces the blocks that were urgent before. At most 64. */
  | { readonly kind: 'set-urgent'; readonly cids: readonly Cid[] }
  /** The answer to `find-providers`, when the search has ended. The list may be empty. */
  | { readonly kind: 'providers'; readonly peers: readonly PeerId[] }
  | { readonly kind: 'tick' }

/** Everything that an exchange wants done. */
export type Output =
  /** Send this to the peer, after everything sent to it before. */
  | { readonly kind: 'send'; readonly peer: PeerId; readonly message: Message; readonly blocks: readonly Block[] }
  /** Check whether this block is in the store, because a peer wants it. Answer with `lookup-result`. */
  | { readonly kind: 'lookup'; readonly cid: Cid }
  /** Read this block from the store for a peer. Answer with `read`, even if the peer has left. */
  | { readonly kind: 'read'; readonly peer: PeerId; readonly cid: Cid }
  /** A wanted block arrived. Other peers get it once `stored` says that it is in the store. */
  | { readonly kind: 'block-received'; readonly block: Block; readonly from: PeerId }
  /** No connected peer is known to have this block. There is one search at a time. */
  | { readonly kind: 'find-providers'; readonly cid: Cid }
  /** Disconnect this peer, because it misbehaves. The exchange has forgotten it already. */
  | { readonly kind: 'drop-peer'; readonly peer: PeerId; readonly reason: Misbehaviour }

/**
 * - `forged-blocks`: it sent blocks that do not match any request.
 * - `flooded`: it kept sending blocks that were not requested.
 * - `stalled`: it announced blocks and never sent them.
 */
export type Misbehaviour = 'forged-blocks' | 'flooded' | 'stalled'
