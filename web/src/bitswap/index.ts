/** The messages of Bitswap 1.2, and of the versions before it as far as they are read. */
export { BitswapError, BLOCK_BYTES_MAX, decodeMessage, encodeMessage, ENTRIES_MAX, MESSAGE_BYTES_MAX } from './message.ts'
export type { BlockPresence, Decoded, Message, ReceivedBlock, WantEntry } from './message.ts'
