import { Socket } from 'phoenix'
import { isOriginRefused } from './origin-refused.ts'

/**
 * Whether the server can be reached now. The socket reconnects by itself, except when it is `refused`: the server does
 * not accept this page's origin. That state is final.
 */
export type ConnectionState = 'connecting' | 'open' | 'offline' | 'refused'

/** The reply to one push. `timeout` and `offline` come from this side. */
export type Reply =
  | { status: 'ok'; response: unknown }
  | { status: 'error'; response: unknown }
  | { status: 'timeout' }
  | { status: 'offline' }

export interface TopicEvents {
  /** The payload of each join and rejoin. */
  params?: () => Record<string, unknown>
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
  /** Resolves with the server's reply. Never rejects. Nothing is queued while the topic is not joined. */
  push(event: string, payload: Record<string, unknown> | Uint8Array): Promise<Reply>
  leave(): void
}

/** The socket of this browser tab. */
export interface Connection {
  readonly state: ConnectionState
  /**
   * Calls back on every change until the returned function is called. `wait`: milliseconds until the next reconnect, if
   * there will be one.
   */
  subscribe(listener: (state: ConnectionState, wait: number | null) => void): () => void
  /** Joins a topic. `names` lists the events to receive. Other events are ignored. */
  join(topic: string, names: readonly string[], events: TopicEvents): Topic
  /**
   * Resolves when the server has answered, on this connection or on the next one. A tab that the browser stopped does not
   * know whether its connection still exists.
   */
  verify(): Promise<void>
  close(): void
}

export interface ConnectionOptions {
  /** The `WebSocket` class to use. Default: the browser's. */
  transport?: unknown
  /** Asks why the first connection fails. Default: the browser's. */
  fetch?: typeof globalThis.fetch
  random?: () => number
  /** Timeout of a push without a reply, in milliseconds. */
  timeout?: number
  /** Timeout of `verify`, after which the connection is replaced, in milliseconds. */
  verifyMs?: number
}

/**
 * Wait before the nth reconnect, n from 1. Jittered, so that clients of a restarted server do not return all at once.
 */
export function reconnectDelay(n: number, random: () => number): number {
  return Math.round((0.5 + random() / 2) * Math.min(10_000, 250 * 2 ** Math.min(n - 1, 10)))
}

/** Longest wait for the reply that shows that a connection exists, in milliseconds. */
const VERIFY_MS = 5_000

/**
 * phoenix.js does not reconnect while its page is hidden. The pages of a tab in the background are shared too, and their
 * visitors must not wait until the person looks at that tab again.
 */
class BackgroundSocket extends Socket {
  override get pageHidden(): boolean {
    return false
  }
}

/** Nothing needs to be remembered, and a browser may forbid session storage. */
const forgetful = { getItem: () => null, setItem: () => undefined }

/**
 * Connects to the server's socket at `endPoint`, such as `/socket`, and reconnects when it is lost. Until it has been
 * open once, each failed attempt is followed by the question whether the server refuses this page's origin.
 */
export function connect(endPoint: string, options: ConnectionOptions = {}): Connection {
  const random = options.random ?? Math.random
  const fetch = options.fetch ?? globalThis.fetch
  const delay = (tries: number) => reconnectDelay(tries, random)
  const socket = new BackgroundSocket(endPoint, {
    // Called once for each reconnect, when it is planned.
    reconnectAfterMs: (tries) => {
      const wait = delay(tries)
      become('offline', wait)
      void askWhetherRefused()
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
    // The socket still reports its end after the refusal.
    if (state === 'refused' || (next === state && wait === null)) return
    state = next
    for (const listener of listeners) listener(next, wait)
  }
  // Aborted by the first open, which proves that the origin is accepted, and by `close`.
  const asking = new AbortController()
  let isAsking = false
  const askWhetherRefused = async () => {
    if (isAsking || asking.signal.aborted) return
    isAsking = true
    const isRefused = await isOriginRefused(endPoint, fetch, asking.signal)
    isAsking = false
    if (!isRefused || asking.signal.aborted) return
    become('refused')
    socket.disconnect()
  }
  socket.onOpen(() => {
    asking.abort()
    become('open')
  })
  socket.onClose(() => become('offline'))
  socket.onError(() => become('offline'))
  socket.connect()

  const verify = () =>
    new Promise<void>((resolve) => {
      let late: ReturnType<typeof setTimeout> | undefined
      const settle = () => {
        clearTimeout(late)
        listeners.delete(listener)
        resolve()
      }
      const listener = (now: ConnectionState) => {
        clearTimeout(late)
        if (now === 'open') settle()
      }
      listeners.add(listener)
      // Without a connection, the next one is awaited.
      if (!socket.ping(settle)) return
      late = setTimeout(() => {
        become('offline')
        socket.disconnect(() => socket.connect())
      }, options.verifyMs ?? VERIFY_MS)
    })
  const unfollow = followWakes(() => void verify())

  return {
    get state() {
      return state
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    join: (topic, names, events) => joinTopic(socket, topic, names, events),
    verify,
    close() {
      unfollow()
      asking.abort()
      socket.disconnect()
      become('offline')
    },
  }
}

/**
 * Calls back when the connection may have ended without a notice: the tab runs again or is shown, or the device has a
 * network again. Returns a function that ends this.
 */
function followWakes(onWake: () => void): () => void {
  const page = globalThis.document as Document | undefined
  if (page === undefined) return () => undefined
  const stop = new AbortController()
  const { signal } = stop
  page.addEventListener('resume', onWake, { signal })
  page.addEventListener('visibilitychange', () => page.visibilityState === 'visible' && onWake(), { signal })
  addEventListener('online', onWake, { signal })
  return () => stop.abort()
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
      // phoenix.js queues without a bound while not joined. Callers send again after a rejoin.
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

/** phoenix.js detects a binary payload by its constructor, which must be `ArrayBuffer`. */
function exactBuffer(bytes: Uint8Array): ArrayBuffer {
  const whole = bytes.byteOffset === 0 && bytes.byteLength === bytes.buffer.byteLength
  if (whole && bytes.buffer instanceof ArrayBuffer) return bytes.buffer
  return new Uint8Array(bytes).buffer
}
