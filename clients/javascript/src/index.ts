/** Watchfire channels in browsers and Node: npm `phoenix`, with recovery of missed messages and fresh tokens. */

export { Client, LongPoll, type ClientOptions } from './client.js'
export type { Channel, ChannelOptions, ChannelStatus, Present, Reload } from './channel.js'
export { RefusedError } from './errors.js'
export type { GetToken } from './tokens.js'
