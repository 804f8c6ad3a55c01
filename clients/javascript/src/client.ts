import { LongPoll as PhoenixLongPoll } from 'phoenix'

import { Channel, type ChannelOptions } from './channel.js'
import { ClientSocket } from './socket.js'
import { type GetToken, Tokens } from './tokens.js'

/** The long-poll transport of npm `phoenix`: `transport: LongPoll` uses no WebSocket at all. */
export const LongPoll: unknown = PhoenixLongPoll

/** All options may be absent. Those after `onError` are passed to the `Socket` of npm `phoenix`. */
export interface ClientOptions {
  /**
   * Returns a token of the user. It is called before the first connection, before a token expires, and when the server refuses a
   * token. If it throws or rejects, the error goes to `onError`, and it is called again after 1, 2, 5 and then each 10 seconds.
   */
  getToken?: GetToken
  /** Gets what goes wrong outside of a call: `getToken` failed, or no connection opens. The default writes to the console. */
  onError?: (error: Error) => void
  /** Parameters in the URL of each connection. */
  params?: Record<string, string> | (() => Record<string, string>)
  /** Falls back to long poll if no WebSocket opens within this time. Without it there is no fallback. */
  longPollFallbackMs?: number
  /** A class like `WebSocket`, or `LongPoll`. The default is the global `WebSocket`, or else long poll. */
  transport?: unknown
  /** Time for an answer of the server, by default 10,000 ms. */
  timeout?: number
  /** Time between two heartbeats, by default 30,000 ms. */
  heartbeatIntervalMs?: number
  /** Wait before the nth attempt to connect again, n from 1. */
  reconnectAfterMs?: (tries: number) => number
  /** Wait before the nth attempt to join again after a refusal, n from 1. */
  rejoinAfterMs?: (tries: number) => number
  /** Where a fallback to long poll is remembered, by default the `sessionStorage` of the page. */
  sessionStorage?: Pick<Storage, 'getItem' | 'setItem'>
  /** Gets a line for each message and event of a connection. */
  logger?: (kind: string, message: string, data: unknown) => void
}

/**
 * A connection to a Watchfire server, and its channels. It connects at the first join, and again whenever the connection is lost.
 *
 * ```js
 * const client = new Client('wss://example.com/socket', { getToken: () => fetch('/token').then((answer) => answer.text()) })
 * const news = client.channel('news:today')
 * news.onReload(() => loadAllNotes())
 * news.on('note', (note) => showNote(note))
 * await news.join()
 * ```
 */
export class Client {
  readonly #socket: ClientSocket

  /** `url` is the address of the server's socket, such as `wss://example.com/socket`, or in a page just `/socket`. */
  constructor(url: string, options: ClientOptions = {}) {
    checkUrl(url)
    const { getToken, onError = console.error, ...ofPhoenix } = options
    if (getToken !== undefined && typeof getToken !== 'function') {
      throw new TypeError('cannot create a client: getToken is not a function; write getToken: () => token')
    }
    const tokens = getToken && new Tokens(getToken, onError)
    this.#socket = new ClientSocket(url, ofPhoenix, tokens, onError)
  }

  /** Whether a connection is open. Channels have a status of their own. */
  get isConnected(): boolean {
    return this.#socket.isConnected()
  }

  /** Connects, as the first join does. It is only needed after `disconnect`: then all channels join again. */
  connect(): void {
    this.#socket.connect()
  }

  /** Closes the connection, and stops all waiting. The channels keep their positions. */
  disconnect(): void {
    this.#socket.disconnect()
  }

  /** Creates a channel of a topic. The listeners can be added before its `join`. */
  channel(topic: string, options: ChannelOptions = {}): Channel {
    return new Channel(this.#socket, topic, options)
  }
}

function checkUrl(url: unknown): void {
  if (typeof url !== 'string' || !/^(wss?:\/|https?:\/)?\/./.test(url)) {
    throw new TypeError(`cannot create a client: ${String(url)} is not a URL such as wss://example.com/socket, or a path such as /socket`)
  }
  if (/^\/[^/]/.test(url) && typeof location === 'undefined') {
    throw new TypeError(`cannot create a client: the path ${url} needs a page; outside of one, give the whole URL`)
  }
  if (/\/(websocket|longpoll)\/?$/.test(url)) {
    throw new TypeError(`cannot create a client: the URL ${url} names a transport; leave out its last part`)
  }
}
