/** Bitswap messages, and the exchange of one page's blocks with its peers. */
export { Exchange } from './exchange.ts'
export { defaultExchangeLimits } from './limits.ts'
export type { ExchangeLimits } from './limits.ts'
export {
  BitswapError,
  BLOCK_BYTES_MAX,
  decodeMessage,
  encodeMessage,
  ENTRIES_MAX,
  MESSAGE_BYTES_MAX,
  messageBytes,
  receiveMessage,
} from './message.ts'
export type { Block, BlockPresence, DecodedMessage, Message, ReceivedBlock, ReceivedMessage, WantEntry } from './message.ts'
export type { Input, Misbehaviour, Output, Want } from './inputs-outputs.ts'
export type { PeerId } from './peer.ts'
export { MILLI, SECOND } from './time.ts'
export type { Nanos } from './time.ts'
export type { PeerTotals, Totals } from './totals.ts'
