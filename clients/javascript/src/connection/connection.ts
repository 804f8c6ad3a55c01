import type { Frame } from './frame.js'
import { Liveness } from './liveness.js'
import { isOriginRefused } from './origin-refused.js'
import { Socket } from './socket.js'
import { SocketTopic, type Topic, type TopicEvents } from './topic.js'

/**
 * Whether the server can be reached now. The socket reconnects by itself, except when it is `refused`: the server does
 * not accept this page's origin. That state is final.
 */
export type ConnectionState = 'connecting' | 'open' | 'offline' | 'refused'

/** The connection of a program to its server. */
export interface Connection {
  readonly state: ConnectionState
  /**
   * Calls back on every change until the returned function is called. `wait`: milliseconds until the next reconnect, if
   * there will be one.
   */
  subscribe(listener: (state: ConnectionState, wait: number | null) => void): () => void
  /**
   * Joins a topic. `names` lists the events to receive. Other events are ignored. If this connection has joined the topic already, the
   * earlier join loses it.
   */
  join(topic: string, names: readonly string[], events: TopicEvents): Topic
  /**
   * Resolves when the server has answered, on this connection or on the next one. A tab that the browser stopped, or whose
   * peers have fallen silent, does not know whether its connection still exists.
   */
  verify(): Promise<void>
  /** Connects to another server, with the default options. */
  connect(endPoint: string): Connection
  close(): void
}

export interface ConnectionOptions {
  /** The `WebSocket` class to use, or a function that makes one, which may be open already. Default: the browser's class. */
  transport?: unknown
  /** Asks why the first connection fails. Default: the browser's. */
  fetch?: typeof globalThis.fetch
  random?: () => number
  /** Timeout of a push without a reply, in milliseconds. */
  timeout?: number
  /** Timeout of `verify`, after which the connection is replaced, in milliseconds. */
  verifyMs?: number
  /** The time after which a message without a reply leads to `verify`, unless anything else arrived, in milliseconds. */
  unansweredMs?: number
}

/**
 * Wait before the nth reconnect, n from 1. Jittered, so that clients of a restarted server do not return all at once.
 */
export function reconnectDelay(n: number, random: () => number): number {
  return Math.round((0.5 + random() / 2) * Math.min(10_000, 250 * 2 ** Math.min(n - 1, 10)))
}

/** Longest wait for the reply that shows that a connection exists, in milliseconds. */
const VERIFY_MS = 4_000
/** The time after which a message without a reply is a reason to ask whether the connection exists, in milliseconds. */
const UNANSWERED_MS = 2_000

/**
 * Connects to the server's socket at `endPoint`, such as `/socket`. A lost connection is made again, also while the page is hidden: the
 * visitors of a page in a hidden tab must not wait until a person looks at that tab. Until the connection has been open once, each failed
 * attempt is followed by the question whether the server refuses this page's origin.
 */
export function connect(endPoint: string, options: ConnectionOptions = {}): Connection {
  return new SocketConnection(endPoint, options)
}

class SocketConnection implements Connection {
  state: ConnectionState = 'connecting'
  readonly #endPoint: string
  readonly #options: ConnectionOptions
  readonly #socket: Socket
  readonly #liveness: Liveness
  readonly #listeners = new Set<(state: ConnectionState, wait: number | null) => void>()
  readonly #topics = new Map<string, SocketTopic>()
  readonly #unfollow: () => void
  /** Aborted by the first open, which proves that the origin is accepted, and by `close`. */
  readonly #asking = new AbortController()
  #isAsking = false

  constructor(endPoint: string, options: ConnectionOptions) {
    this.#endPoint = endPoint
    this.#options = options
    this.#socket = new Socket(addressOf(endPoint), {
      transport: (options.transport ?? globalThis.WebSocket) as typeof WebSocket,
      delay: this.#delay,
      timeout: options.timeout ?? 10_000,
      unansweredMs: options.unansweredMs ?? UNANSWERED_MS,
      onUnanswered: () => void this.verify(),
      onOpen: () => this.#handleOpen(),
      onError: () => this.#become('offline'),
      onEnd: () => {
        this.#topics.forEach(async (topic) => topic.disconnected())
      },
      onLost: (wait) => {
        this.#become('offline', wait)
        void this.#askWhetherRefused()
      },
      onFrame: (frame: Frame) => this.#topics.get(frame.topic)?.handle(frame),
    })
    this.#liveness = new Liveness(this.#socket, {
      verifyMs: options.verifyMs ?? VERIFY_MS,
      whenOpen: (callback) => this.subscribe((state) => state === 'open' && callback()),
      replace: () => {
        this.#become('offline')
        this.#socket.replace()
      },
    })
    this.#socket.connect()
    this.#unfollow = followPage({
      onWake: () => void this.verify(),
      onHide: () => {
        this.#socket.disconnect()
        this.#become('offline')
      },
      onReturn: () => this.#socket.connect(),
    })
  }

  subscribe(listener: (state: ConnectionState, wait: number | null) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  join(name: string, names: readonly string[], events: TopicEvents): Topic {
    this.#topics.get(name)?.giveUp()
    const onEnd = () => {
      if (this.#topics.get(name) === topic) this.#topics.delete(name)
    }
    const topic = new SocketTopic(this.#socket, name, { names, events, delay: this.#delay, onEnd })
    this.#topics.set(name, topic)
    topic.join()
    return topic
  }

  verify(): Promise<void> {
    return this.#liveness.verify()
  }

  connect(endPoint: string): Connection {
    return connect(endPoint)
  }

  close(): void {
    this.#unfollow()
    this.#asking.abort()
    this.#socket.disconnect()
    this.#become('offline')
  }

  readonly #delay = (tries: number): number => reconnectDelay(tries, this.#options.random ?? Math.random)

  #become(next: ConnectionState, wait: number | null = null): void {
    // The socket still reports its end after the refusal.
    if (this.state === 'refused' || (next === this.state && wait === null)) return
    this.state = next
    // An async function, so that one which throws is reported, and the others are called.
    this.#listeners.forEach(async (listener) => listener(next, wait))
  }

  #handleOpen(): void {
    this.#asking.abort()
    this.#become('open')
    this.#topics.forEach(async (topic) => topic.join())
  }

  async #askWhetherRefused(): Promise<void> {
    const { signal } = this.#asking
    if (this.#isAsking || signal.aborted) return
    this.#isAsking = true
    const isRefused = await isOriginRefused(this.#endPoint, this.#options.fetch ?? globalThis.fetch, signal)
    this.#isAsking = false
    if (!isRefused || signal.aborted) return
    this.#unfollow()
    this.#become('refused')
    this.#socket.disconnect()
  }
}

/** The WebSocket address of an end point: a path of this page's server, or an address with `ws`, `wss`, `http` or `https`. */
function addressOf(endPoint: string): string {
  const absolute = endPoint.startsWith('/') ? location.origin + endPoint : endPoint
  return `${absolute.replace(/^http/, 'ws')}/websocket?vsn=2.0.0`
}

/**
 * Follows this page until the returned function is called. `onWake`: the connection may have ended without a notice, because the tab
 * runs again or is shown, or the device has a network again or another kind of network. `onHide`: the page is left. `onReturn`: the
 * page is back from the browser's cache.
 */
function followPage({ onWake, onHide, onReturn }: { onWake: () => void; onHide: () => void; onReturn: () => void }): () => void {
  const page = globalThis.document as Document | undefined
  if (page === undefined) return () => undefined
  const stop = new AbortController()
  const { signal } = stop
  let isLeft = false
  page.addEventListener('resume', onWake, { signal })
  page.addEventListener('visibilitychange', () => page.visibilityState === 'visible' && onWake(), { signal })
  addEventListener('online', onWake, { signal })
  // Only some browsers of phones tell the kind of the network.
  const network = (navigator as { connection?: EventTarget & { readonly type?: string } }).connection
  let kind = network?.type
  const noteNetwork = () => {
    if (network?.type === kind) return
    kind = network?.type
    onWake()
  }
  network?.addEventListener?.('change', noteNetwork, { signal })
  const leave = () => {
    isLeft = true
    onHide()
  }
  const comeBack = () => {
    // A page that has just loaded is shown too, without having been left.
    if (!isLeft) return
    isLeft = false
    onReturn()
  }
  addEventListener('pagehide', leave, { signal })
  addEventListener('pageshow', comeBack, { signal })
  return () => stop.abort()
}
