/**
 * Bitswap messages, and the exchange of one page's blocks with its peers.
 *
 * Files and names are those of `crates/bitswap`, so that a change there is carried over by reading: `requested_bytes_max` is
 * `requestedBytesMax`, `len` is `length` of bytes and `size` of a collection, and a `handle_` call of `Exchange` is an `Input`.
 */
export { BitSet } from './bit-set.ts'
export { Exchange } from './exchange.ts'
export { defaultLimits, type Limits } from './limits.ts'
export {
  MessageError,
  decodeMessage,
  encodeHeads,
  encodeMessage,
  ENTRIES_MAX,
  MESSAGE_BYTES_MAX,
  encodedLength,
  receiveMessage,
  requestsBlocks,
} from './message.ts'
export type { Block, HeadMessage, Message, ReceivedMessage, ReceivedWithHeads, WantEntry } from './message.ts'
export type { Input, Misbehaviour, Output, Want } from './output.ts'
export { peerOf, type PeerId } from './peer.ts'
export { RecentSet } from './recent-set.ts'
export { MILLI, SECOND } from './time.ts'
export type { PeerTotals } from './totals.ts'
