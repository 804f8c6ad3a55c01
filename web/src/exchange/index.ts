/** The exchange of one page's blocks with its peers, as a state machine without clock, dice or network. */
export { defaultExchangeSettings } from './events.ts'
export type {
  DropReason, ExchangeCounts, ExchangeSettings, Have, Input, Lane, Millis, Output, PeerId,
} from './events.ts'
export { Exchange } from './exchange.ts'
