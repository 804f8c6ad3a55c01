import type { Frame } from './frame.js'
import type { Reply, Socket } from './socket.js'

export interface TopicEvents {
  /** The payload of each join and rejoin. */
  params?: () => Record<string, unknown>
  /** A message of bytes that is sent right after each join and rejoin, before the server has replied to that. `settle` gets its reply. */
  first?: () => { event: string; payload: Uint8Array; settle: (reply: Reply) => void } | null
  /**
   * The topic was joined, or joined again after the connection was lost. The server has forgotten everything before.
   */
  joined?: (response: unknown) => void
  /** The server rejected the join. The join is repeated later unless the topic is left. */
  refused?: (response: unknown) => void
  /** The connection or the channel broke. `joined` follows when it is back. */
  lost?: () => void
  /** A push or broadcast of the server. The payload is an `ArrayBuffer` if it was binary. */
  message?: (event: string, payload: unknown) => void
}

/** A topic that was joined. */
export interface Topic {
  isJoined(): boolean
  /**
   * Resolves with the server's reply. Nothing is queued while the topic is not joined. Rejects only for bytes, if the topic or event has
   * a name of more than 255 bytes.
   */
  push(event: string, payload: Record<string, unknown> | Uint8Array): Promise<Reply>
  leave(): void
}

/** A topic of one socket, from `join` until it is left or the server closes it. */
export class SocketTopic implements Topic {
  readonly name: string
  readonly #socket: Socket
  readonly #events: TopicEvents
  readonly #names: ReadonlySet<string>
  readonly #delay: (tries: number) => number
  readonly #onEnd: () => void
  /** The reference of the latest join on this connection. The server names it in its messages. */
  #joinRef: string | null = null
  #isJoined = false
  #hasEnded = false
  #tries = 0
  #rejoin: ReturnType<typeof setTimeout> | undefined

  constructor(
    socket: Socket,
    name: string,
    options: { names: readonly string[]; events: TopicEvents; delay: (tries: number) => number; onEnd: () => void },
  ) {
    this.#socket = socket
    this.name = name
    this.#names = new Set(options.names)
    this.#events = options.events
    this.#delay = options.delay
    this.#onEnd = options.onEnd
  }

  isJoined(): boolean {
    return this.#isJoined
  }

  push(event: string, payload: Record<string, unknown> | Uint8Array): Promise<Reply> {
    if (!this.#isJoined || !this.#socket.isOpen) return Promise.resolve({ status: 'offline' })
    return new Promise((resolve) => this.#request(event, payload, this.#socket.nextRef(), resolve))
  }

  leave(): void {
    if (this.#hasEnded) return
    this.#sendLeave()
    this.#end()
    this.#isJoined = false
  }

  /** Another join of this connection takes the topic over. */
  giveUp(): void {
    this.#sendLeave()
    this.#end()
    this.#lose()
  }

  /** The socket is open: joins, unless a listener of the connection has joined already. */
  join(): void {
    clearTimeout(this.#rejoin)
    if (this.#hasEnded || this.#joinRef !== null || !this.#socket.isOpen) return
    const ref = this.#socket.nextRef()
    this.#joinRef = ref
    const params = this.#events.params?.() ?? {}
    this.#request('phx_join', params, ref, (reply) => {
      if (this.#joinRef === ref) this.#handleJoinReply(reply)
    })
    const first = this.#events.first?.()
    if (first) this.#request(first.event, first.payload, this.#socket.nextRef(), first.settle)
  }

  /** The socket has lost its connection. It calls `join` when it is open again. */
  disconnected(): void {
    clearTimeout(this.#rejoin)
    this.#joinRef = null
    this.#tries = 0
    this.#lose()
  }

  handle({ joinRef, event, payload }: Frame): void {
    if (this.#hasEnded || (joinRef !== null && joinRef !== this.#joinRef)) return
    if (event === 'phx_close') {
      this.#end()
      this.#lose()
    } else if (event === 'phx_error') {
      this.#planRejoin()
      this.#lose()
    } else if (this.#names.has(event)) this.#events.message?.(event, payload)
  }

  #handleJoinReply(reply: Reply): void {
    if (reply.status === 'ok') {
      this.#tries = 0
      this.#isJoined = true
      this.#events.joined?.(reply.response)
      return
    }
    // A join that comes too late must not count.
    if (reply.status === 'timeout') this.#sendLeave()
    this.#planRejoin()
    if (reply.status === 'error') this.#events.refused?.(reply.response)
  }

  #planRejoin(): void {
    this.#joinRef = null
    clearTimeout(this.#rejoin)
    this.#rejoin = setTimeout(() => this.join(), this.#delay(++this.#tries))
  }

  #lose(): void {
    if (!this.#isJoined) return
    this.#isJoined = false
    this.#events.lost?.()
  }

  #end(): void {
    this.#hasEnded = true
    // A reply to a join can still come.
    this.#joinRef = null
    clearTimeout(this.#rejoin)
    this.#onEnd()
  }

  #sendLeave(): void {
    if (this.#joinRef === null) return
    this.#socket.send({ joinRef: this.#joinRef, ref: this.#socket.nextRef(), topic: this.name, event: 'phx_leave', payload: {} })
  }

  #request(event: string, payload: unknown, ref: string, settle: (reply: Reply) => void): void {
    this.#socket.request({ joinRef: this.#joinRef, ref, topic: this.name, event, payload }, settle)
  }
}
