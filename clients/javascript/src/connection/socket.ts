import { decodeFrame, encodeFrame, type Frame } from './frame.js'

/** The reply to one push. `timeout` and `offline` come from this side. */
export type Reply =
  | { status: 'ok'; response: unknown }
  | { status: 'error'; response: unknown }
  | { status: 'timeout' }
  | { status: 'offline' }

export interface SocketOptions {
  readonly transport: typeof WebSocket
  /** The wait before the nth reconnect, n from 1, in milliseconds. */
  readonly delay: (tries: number) => number
  /** Timeout of a request, in milliseconds. */
  readonly timeout: number
  /** The time after which a request without a reply is reported, unless anything else arrived, in milliseconds. */
  readonly unansweredMs: number
  /** The server may not be reached any more, although the connection has not ended. */
  readonly onUnanswered: () => void
  readonly onOpen: () => void
  /** An attempt or the connection fails. `onLost` follows. */
  readonly onError: () => void
  /** The connection is lost or did not open. `wait`: milliseconds until the next attempt. */
  readonly onLost: (wait: number) => void
  /** Whether this socket was open: its topics are lost. Called before `onLost`, and by `disconnect`. */
  readonly onEnd: () => void
  /** A message that is not the reply to a request. */
  readonly onFrame: (frame: Frame) => void
}

/** The wait before the next heartbeat, and the longest wait for its reply, in milliseconds. */
const HEARTBEAT_MS = 30_000
const OPEN = 1

type Timer = ReturnType<typeof setTimeout> | undefined

/** One connection at a time, with heartbeats. A connection that is lost is made again. */
export class Socket {
  readonly #url: string
  readonly #options: SocketOptions
  #transport: WebSocket | null = null
  #retry: Timer
  #heartbeat: Timer
  #tries = 0
  #refs = 0
  /** Messages that have arrived. Each shows that the connection exists. */
  received = 0
  /** The requests that wait for a reply. Each one ends with its timeout. */
  readonly #requests = new Map<string, (reply: Reply) => void>()

  constructor(url: string, options: SocketOptions) {
    this.#url = url
    this.#options = options
  }

  get isOpen(): boolean {
    return this.#transport?.readyState === OPEN
  }

  /** Connects now, unless a connection exists or is being made. */
  connect(): void {
    if (this.#transport !== null) return
    clearTimeout(this.#retry)
    this.#retry = undefined
    const transport = new this.#options.transport(this.#url)
    this.#transport = transport
    transport.binaryType = 'arraybuffer'
    // A connection that was given up may still report its end.
    const ifCurrent =
      <Event>(handle: (event: Event) => void) =>
      (event: Event) => {
        if (this.#transport === transport) handle(event)
      }
    transport.onopen = ifCurrent(() => this.#handleOpen())
    // The transport may be open already. Its other events come in later tasks, when they have their handlers.
    if (this.isOpen) queueMicrotask(transport.onopen as () => void)
    transport.onmessage = ifCurrent(({ data }: MessageEvent<unknown>) => this.#handleMessage(data))
    transport.onerror = ifCurrent(() => this.#options.onError())
    transport.onclose = ifCurrent(() => this.#handleLoss())
  }

  /** Ends the connection and all attempts. What was sent before still arrives. */
  disconnect(): void {
    clearTimeout(this.#retry)
    this.#retry = undefined
    this.#end()
  }

  /** Ends the connection and makes a new one now. */
  replace(): void {
    this.disconnect()
    this.connect()
  }

  /** Makes the next attempt now, if one is planned. */
  hurry(): void {
    if (this.#retry !== undefined) this.connect()
  }

  nextRef(): string {
    return String(++this.#refs)
  }

  /** Sends a message, unless there is no connection. */
  send(frame: Frame): void {
    if (this.isOpen) this.#transport?.send(encodeFrame(frame))
  }

  /** Sends a message and calls back with its reply, or with `timeout`. Throws if the message cannot be encoded. */
  request(frame: Frame & { readonly ref: string }, settle: (reply: Reply) => void, timeoutMs = this.#options.timeout): void {
    const { received } = this
    this.send(frame) // Before the timers, because it may throw.
    const finish = (reply: Reply) => {
      clearTimeout(timer)
      clearTimeout(late)
      this.#requests.delete(frame.ref)
      settle(reply)
    }
    const timer = setTimeout(() => finish({ status: 'timeout' }), timeoutMs)
    const late = setTimeout(() => {
      if (this.received === received) this.#options.onUnanswered()
    }, this.#options.unansweredMs)
    this.#requests.set(frame.ref, finish)
  }

  /** Calls back when the server has answered, or not within a time. `false` without a connection. */
  ping(timeoutMs: number, settle: (isAnswered: boolean) => void): boolean {
    if (!this.isOpen) return false
    const transport = this.#transport
    const frame = { joinRef: null, ref: this.nextRef(), topic: 'phoenix', event: 'heartbeat', payload: {} }
    // A connection that was replaced meanwhile has nothing to answer.
    const settleIfCurrent = ({ status }: Reply) => this.#transport === transport && settle(status !== 'timeout')
    this.request(frame, settleIfCurrent, timeoutMs)
    return true
  }

  #handleOpen(): void {
    this.#tries = 0
    this.#planHeartbeat()
    this.#options.onOpen()
  }

  #planHeartbeat(): void {
    clearTimeout(this.#heartbeat)
    this.#heartbeat = setTimeout(() => {
      this.ping(HEARTBEAT_MS, (isAnswered) => (isAnswered ? this.#planHeartbeat() : this.#handleLoss()))
    }, HEARTBEAT_MS)
  }

  #handleMessage(data: unknown): void {
    this.received++
    const frame = decodeFrame(data)
    if (frame === null) return
    const settle = frame.event === 'phx_reply' && frame.ref !== null ? this.#requests.get(frame.ref) : undefined
    if (settle === undefined) this.#options.onFrame(frame)
    else settle(replyOf(frame.payload))
  }

  #handleLoss(): void {
    const wait = this.#options.delay(++this.#tries)
    this.#retry = setTimeout(() => this.connect(), wait)
    this.#end()
    // A listener may have disconnected, or connected again.
    if (this.#retry !== undefined) this.#options.onLost(wait)
  }

  #end(): void {
    clearTimeout(this.#heartbeat)
    const transport = this.#transport
    this.#transport = null
    transport?.close()
    if (transport !== null) this.#options.onEnd()
  }
}

function replyOf(payload: unknown): Reply {
  const { status, response } = Object(payload) as { status?: unknown; response?: unknown }
  return { status: status === 'ok' ? 'ok' : 'error', response }
}
