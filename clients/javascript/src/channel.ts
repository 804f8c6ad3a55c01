import { type Channel as PhoenixChannel, Presence } from 'phoenix'

import { RefusedError, reasonOf } from './errors.js'
import { History, type HistoryReply, positionOf } from './history.js'
import type { ClientSocket } from './socket.js'

export interface ChannelOptions {
  /** The payload of each join. A function is called at each join. `token` and `history` are the client's. */
  params?: object | (() => object)
  /** The first join asks for this many of the last messages. It needs a rule with `history`. */
  last?: number
}

/** The state of a channel after a change. */
export type ChannelStatus =
  /** The server accepted a join. `recovered`: all missed messages follow. */
  | { kind: 'joined'; recovered: boolean }
  /** The connection is lost, or the server ended the channel for a moment. The client joins again. */
  | { kind: 'interrupted' }
  /** The server refused a join for now, or a join after the first one. The client goes on trying. */
  | { kind: 'refused'; reason: string }
  /** `leave` was called, or the server closed the channel. The client does not join again. */
  | { kind: 'closed'; reason: string }

/** A channel may miss messages: load the state from your own database. Messages after the join follow. */
export type Reload = {
  /** The first join. Otherwise, messages were lost. */
  isFirst: boolean
}

/** Clients that are present, by their key: the `sub` of their token. A client with two connections has two metas. */
export type Present = Record<string, Record<string, unknown>[]>

type Listener = (payload: never, position: string | null) => void
type Join = { resolve: (response: unknown) => void; reject: (error: Error) => void }

/** Refusals after which another token may help. A server that has to fetch a new key first refuses its tokens as invalid. */
const TOKEN_REASONS = ['token_expired', 'token_invalid']

/**
 * Refusals that pass by themselves: the limit of joins per second, a backend that does not answer, a crash in the channel. The client
 * goes on trying, also at a first join.
 */
const PASSING_REASONS = ['too fast', 'backend_unavailable', 'join crashed']

/** So many refusals of tokens end a first join. */
const TOKEN_REFUSALS_MAX = 3

/** One topic. `Client.channel` creates it. */
export class Channel {
  readonly topic: string
  readonly #socket: ClientSocket
  readonly #options: ChannelOptions
  readonly #history = new History()
  readonly #listeners = new Map<string, Set<Listener>>()
  readonly #onReload = new Set<(reload: Reload) => void>()
  readonly #onStatus = new Set<(status: ChannelStatus) => void>()
  readonly #onPresence = new Set<(present: Present) => void>()
  /** The channel of npm `phoenix`, until it is closed. A channel whose token has expired gets another one. */
  #phoenix: PhoenixChannel | undefined
  /** The first join, until it is answered. */
  #joining: Join | undefined
  #isWanted = false
  #wasJoined = false
  /** Refusals of tokens since the last successful join. */
  #tokenRefusals = 0
  #expiryReason: string | undefined

  /** @internal */
  constructor(socket: ClientSocket, topic: string, options: ChannelOptions) {
    if (typeof topic !== 'string' || topic === '')
      throw new TypeError('cannot create a channel: its topic is not a text such as "news:today"')
    const { last } = options
    if (last !== undefined && !(Number.isInteger(last) && last > 0)) {
      throw new TypeError(`cannot create the channel ${topic}: last is ${last}, which is not a positive integer`)
    }
    this.topic = topic
    this.#socket = socket
    this.#options = options
  }

  /**
   * Joins the topic. The promise waits while there is no connection, and while the server refuses joins for a reason that passes, such as
   * a backend that is away. It is rejected with a `RefusedError` when the server refuses the join for good, with a fresh token too. After
   * a success, the client joins again by itself until `leave`.
   */
  join(): Promise<unknown> {
    if (this.#isWanted) return Promise.reject(new Error(`cannot join ${this.topic}: this channel has joined already; call leave() first`))
    if (this.#socket.topics.has(this.topic)) {
      return Promise.reject(new Error(`cannot join ${this.topic}: another channel of this client has joined it; use that one`))
    }
    const answer = new Promise((resolve, reject) => (this.#joining = { resolve, reject }))
    try {
      this.#joinPayload()
    } catch (error) {
      this.#joining = undefined
      return Promise.reject(error)
    }
    this.#isWanted = true
    this.#wasJoined = false
    this.#tokenRefusals = 0
    this.#socket.topics.add(this.topic)
    this.#open()
    this.#socket.connect()
    return answer
  }

  /** Leaves the topic. The listeners stay for another `join`. */
  leave(): void {
    if (this.#isWanted) this.#close('leave')
  }

  /**
   * Calls the listener for each message with this event: each one once, in order. `position` is its place in the topic's history, or
   * `null`. The type of the payload is your assertion: nothing checks it. Returns a function that removes the listener. A listener that
   * throws keeps the message from no other one, and its error is a rejection that nobody handles.
   */
  on<Payload = unknown>(event: string, listener: (payload: Payload, position: string | null) => void): () => void {
    if (/^(phx_|chan_reply_)/.test(event)) throw new TypeError(`cannot listen to ${event}: it is an event of the protocol; use onStatus`)
    const listeners = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, listeners)
    return added(listeners, listener)
  }

  /** Calls the listener at the first join, and at each later one that does not recover all missed messages. */
  onReload(listener: (reload: Reload) => void): () => void {
    return added(this.#onReload, listener)
  }

  /** Calls the listener at each change of the status. */
  onStatus(listener: (status: ChannelStatus) => void): () => void {
    return added(this.#onStatus, listener)
  }

  /** Calls the listener at each change of the clients that are present. It needs a rule with `presence`. Add it before `join`. */
  onPresence(listener: (present: Present) => void): () => void {
    return added(this.#onPresence, listener)
  }

  /**
   * Sends a message, and resolves with the server's answer. It waits while there is no connection. It is rejected
   * with a `RefusedError` when the server refuses the message, or does not answer within `timeout` milliseconds. The default is that of
   * the client.
   */
  push(event: string, payload: object = {}, timeout?: number): Promise<unknown> {
    const phoenix = this.#phoenix
    if (!phoenix) {
      const cause = this.#isWanted
        ? 'it waits for a new token; push again when its status is joined'
        : 'it is not joined; call join() first'
      return Promise.reject(new Error(`cannot push ${event} to ${this.topic}: ${cause}`))
    }
    return new Promise((resolve, reject) => {
      const request = `push ${event} to ${this.topic}`
      phoenix
        .push(event, payload, timeout)
        .receive('ok', resolve)
        .receive('error', (response) => reject(new RefusedError(request, response)))
        .receive('timeout', () => reject(new RefusedError(request, undefined, 'timeout')))
    })
  }

  #joinPayload(): object {
    const { params, last } = this.#options
    const own = typeof params === 'function' ? params() : (params ?? {})
    for (const name of ['token', 'history']) {
      if (name in own) {
        const instead = name === 'token' ? 'getToken of the client' : 'last of the channel'
        throw new TypeError(`cannot join ${this.topic}: params has ${name}; use the option ${instead}`)
      }
    }
    const token = this.#socket.tokenForJoin
    const history = this.#history.request(last)
    return { ...own, ...(token === undefined ? {} : { token }), ...(history && { history }) }
  }

  #open(): void {
    const phoenix = this.#socket.channel(this.topic, () => this.#joinPayload())
    this.#phoenix = phoenix
    const isCurrent = () => this.#phoenix === phoenix
    phoenix.onMessage = (event, payload, ref) => {
      if (isCurrent()) this.#receive(event, payload, positionOf(ref))
      return payload
    }
    phoenix.onError(() => isCurrent() && this.#wasJoined && this.#setStatus({ kind: 'interrupted' }))
    phoenix.onClose(() => isCurrent() && this.#handleClose())
    const presence = new Presence(phoenix)
    presence.onSync(() => {
      const present = Object.fromEntries(presence.list((key, { metas }) => [key, metas] as const))
      callEach(this.#onPresence, present)
    })
    phoenix
      .join()
      .receive('ok', (response) => isCurrent() && this.#handleJoined(response as HistoryReply))
      .receive('error', (response) => isCurrent() && this.#handleRefusal(response))
  }

  #receive(event: string, payload: unknown, position: string | null): void {
    if (position !== null && !this.#history.noteMessage(position)) return
    if (event === 'token_expiring') void this.#refresh()
    if (event === 'token_expired') this.#expiryReason = reasonOf(payload)
    callEach(this.#listeners.get(event), payload as never, position)
  }

  #handleJoined(reply: HistoryReply): void {
    const [isFirst, joining] = [!this.#wasJoined, this.#joining]
    const recovered = this.#history.noteJoined(reply)
    this.#wasJoined = true
    this.#tokenRefusals = 0
    this.#expiryReason = undefined
    this.#joining = undefined
    joining?.resolve(reply)
    this.#setStatus({ kind: 'joined', recovered })
    if (!recovered) callEach(this.#onReload, { isFirst })
  }

  #handleRefusal(response: unknown): void {
    const reason = reasonOf(response)
    const isOfToken = this.#socket.tokens !== undefined && TOKEN_REASONS.includes(reason)
    if (isOfToken && ++this.#tokenRefusals === 1) return void this.#openWithNewToken()
    const mayTryAgain = isOfToken && this.#tokenRefusals < TOKEN_REFUSALS_MAX
    const passes = PASSING_REASONS.includes(reason)
    if (this.#joining && !mayTryAgain && !passes) {
      this.#close(reason, response)
      return
    }
    if (this.#wasJoined || passes) this.#setStatus({ kind: 'refused', reason })
    // npm `phoenix` tries again after its usual delay, with this token.
    if (isOfToken) void this.#socket.tokens?.renew()
  }

  /** The server closed the channel, which npm `phoenix` does not join again. */
  #handleClose(): void {
    this.#phoenix = undefined
    const reason = this.#expiryReason ?? 'closed by the server'
    if (reason !== 'token_expired' || !this.#socket.tokens) {
      this.#close(reason)
      return
    }
    this.#setStatus({ kind: 'interrupted' })
    void this.#openWithNewToken()
  }

  async #openWithNewToken(): Promise<void> {
    const refused = this.#phoenix
    this.#phoenix = undefined
    refused?.leave()
    const token = await this.#socket.tokens?.renew()
    if (!this.#isWanted || this.#phoenix) return
    // Without a token the client was disconnected, and the next connection has a new one.
    if (token === undefined) this.#tokenRefusals = 0
    this.#open()
  }

  async #refresh(): Promise<void> {
    const phoenix = this.#phoenix
    const token = await this.#socket.tokens?.renew()
    if (token === undefined || phoenix === undefined || this.#phoenix !== phoenix) return
    phoenix.push('refresh', { token }).receive('error', (response) => {
      this.#socket.reportError(new RefusedError(`refresh the token of ${this.topic}`, response))
    })
  }

  /** Ends the channel; the first join is rejected if it waits. */
  #close(reason: string, response?: unknown): void {
    const [phoenix, joining] = [this.#phoenix, this.#joining]
    this.#phoenix = undefined
    this.#joining = undefined
    this.#isWanted = false
    this.#socket.topics.delete(this.topic)
    phoenix?.leave()
    joining?.reject(new RefusedError(`join ${this.topic}`, response, reason))
    this.#setStatus({ kind: 'closed', reason })
  }

  #setStatus(status: ChannelStatus): void {
    callEach(this.#onStatus, status)
  }
}

/** Calls each listener, also after one that throws. An async function: its error is reported as a rejection that nobody handles. */
function callEach<Values extends unknown[]>(listeners: Set<(...values: Values) => void> | undefined, ...values: Values): void {
  listeners?.forEach(async (listener) => listener(...values))
}

function added<Item>(set: Set<Item>, item: Item): () => void {
  set.add(item)
  return () => void set.delete(item)
}
