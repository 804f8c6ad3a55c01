import { Socket } from 'phoenix'

/** Whether the server can be reached now. The socket keeps trying by itself. */
export type ConnectionState = 'connecting' | 'open' | 'offline'

/** What the server said to one push; `timeout` and `offline` are said by this side. */
export type Reply =
  | { status: 'ok'; response: unknown }
  | { status: 'error'; response: unknown }
  | { status: 'timeout' }
  | { status: 'offline' }

/** What happens on a topic. */
export interface TopicEvents {
  /** Sent with every join and rejoin, so it is asked for each time. */
  params?: () => Record<string, unknown>
  /** Joined, or joined again after the connection was lost: the server has forgotten all before. */
  joined?: (response: unknown) => void
  /** The server refused. The topic is tried again later unless it is left. */
  refused?: (response: unknown) => void
  /** The connection or the channel broke; `joined` follows when it heals. */
  lost?: () => void
  /** Every push and broadcast of the server. The payload is an `ArrayBuffer` when it was binary. */
  message?: (event: string, payload: unknown) => void
}

/** One topic this page is on. */
export interface Topic {
  isJoined(): boolean
  /** Resolves with what the server said; never rejects. Nothing is queued while not joined. */
  push(event: string, payload: Record<string, unknown> | Uint8Array): Promise<Reply>
  leave(): void
}

/** The one socket of this browser tab. */
export interface Connection {
  readonly state: ConnectionState
  /**
   * Calls back on every change until the returned function is called. `wait`: milliseconds until the server is called
   * again, where that is to come.
   */
  subscribe(listener: (state: ConnectionState, wait: number | null) => void): () => void
  /** `events` names every event wanted; of others nothing is told. */
  join(topic: string, names: readonly string[], events: TopicEvents): Topic
  close(): void
}

export interface ConnectionOptions {
  /** The `WebSocket` class to use; the browser's own when left out. */
  transport?: unknown
  random?: () => number
  /** How long a push waits for its reply, in milliseconds. */
  timeout?: number
}

/** Wait before the nth reconnect, n from 1. Jittered, so a restarted server meets a drizzle. */
export function reconnectDelay(n: number, random: () => number): number {
  return Math.round((0.5 + random() / 2) * Math.min(10_000, 250 * 2 ** Math.min(n - 1, 10)))
}

/** We use nothing that Phoenix would remember, and a browser may forbid to remember anything. */
const forgetful = { getItem: () => null, setItem: () => undefined }

/** Connects to the server's socket at `endPoint`, such as `/socket`, and stays connected. */
export function connect(endPoint: string, options: ConnectionOptions = {}): Connection {
  const random = options.random ?? Math.random
  const delay = (tries: number) => reconnectDelay(tries, random)
  const socket = new Socket(endPoint, {
    // Asked once for each reconnect, as it is planned.
    reconnectAfterMs: (tries) => {
      const wait = delay(tries)
      become('offline', wait)
      return wait
    },
    rejoinAfterMs: delay,
    timeout: options.timeout ?? 10_000,
    sessionStorage: forgetful,
    ...(options.transport === undefined ? {} : { transport: options.transport }),
  })
  const listeners = new Set<(state: ConnectionState, wait: number | null) => void>()
  let state: ConnectionState = 'connecting'
  const become = (next: ConnectionState, wait: number | null = null) => {
    if (next === state && wait === null) return
    state = next
    for (const listener of listeners) listener(next, wait)
  }
  socket.onOpen(() => become('open'))
  socket.onClose(() => become('offline'))
  socket.onError(() => become('offline'))
  socket.connect()

  return {
    get state() {
      return state
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    join: (topic, names, events) => joinTopic(socket, topic, names, events),
    close() {
      socket.disconnect()
      become('offline')
    },
  }
}

function joinTopic(socket: Socket, name: string, names: readonly string[], events: TopicEvents): Topic {
  let joined = false
  let left = false
  const channel = socket.channel(name, events.params ?? {})
  for (const event of names) {
    channel.on(event, (payload) => {
      if (!left) events.message?.(event, payload)
    })
  }
  const lost = () => {
    if (left || !joined) return
    joined = false
    events.lost?.()
  }
  channel.onError(lost)
  channel.onClose(lost)
  channel
    .join()
    .receive('ok', (response) => {
      if (left) return
      joined = true
      events.joined?.(response)
    })
    .receive('error', (response) => {
      if (!left) events.refused?.(response)
    })

  return {
    isJoined: () => joined,
    push(event, payload) {
      // phoenix.js queues without bound while not joined; what matters is said again after a rejoin.
      if (!joined || !socket.isConnected()) return Promise.resolve({ status: 'offline' })
      const body = payload instanceof Uint8Array ? exactBuffer(payload) : payload
      return new Promise((resolve) => {
        channel
          .push(event, body)
          .receive('ok', (response) => resolve({ status: 'ok', response }))
          .receive('error', (response) => resolve({ status: 'error', response }))
          .receive('timeout', () => resolve({ status: 'timeout' }))
      })
    },
    leave() {
      if (left) return
      left = true
      joined = false
      channel.leave()
    },
  }
}

/** phoenix.js knows a binary payload by its constructor being `ArrayBuffer`. */
function exactBuffer(bytes: Uint8Array): ArrayBuffer {
  const whole = bytes.byteOffset === 0 && bytes.byteLength === bytes.buffer.byteLength
  if (whole && bytes.buffer instanceof ArrayBuffer) return bytes.buffer
  return new Uint8Array(bytes).buffer
}
