import type { Bytes } from '@watchfire/pages/content'
import { parseOpenRequest, parsePullRequest, type PullReply, type Purpose, type WorkerCommand } from './protocol.ts'
import { fileUrl } from './request.ts'

/** Files offered at the same time; beyond it, the oldest offer is withdrawn. */
const TICKETS_MAX = 64
/** Streams of one file at the same time. A player opens a new one when it seeks, and may never close the old one. */
const STREAMS_PER_TICKET_MAX = 4
/** Interval between messages that keep the worker running while streams are open. */
const KEEP_ALIVE_INTERVAL_MS = 20_000
/** The longest wait for the worker to be registered, and to take control of a tab that was loaded without it. */
const CONTROL_TIMEOUT_MS = 3000

/** A file that this tab offers to the worker. */
export interface OfferedFile {
  readonly cid: string
  readonly name: string
  readonly mime: string
  readonly size: number
  read(from: number, to: number, signal: AbortSignal): ReadableStream<Bytes>
  /** Called when a reader starts. */
  onStart?(): void
  /** Called when a stream has ended; `reason` is the error, or `null`. */
  onEnd?(reason: Error | null): void
}

/** The part of `navigator.serviceWorker` that is used here. */
export interface ServiceWorkers {
  readonly controller: { postMessage(command: WorkerCommand): void } | null
  readonly ready: Promise<{ readonly active: { postMessage(command: WorkerCommand): void } | null }>
  register(script: string, options: { scope: string; updateViaCache: 'none' }): Promise<unknown>
  addEventListener(type: 'message' | 'controllerchange', listener: (event: Event) => void): void
}

/** The tab's side of the service worker: offers files under URLs, for players and for saving. */
export class FileStreams {
  readonly #workers: ServiceWorkers
  readonly #tickets = new Map<string, { purpose: Purpose; file: OfferedFile; streams: Set<AbortController> }>()
  #ready: Promise<boolean> | null = null
  #openStreams = 0
  #keepAliveSentAt = -Infinity
  #keepAliveTimer: ReturnType<typeof setInterval> | null = null

  constructor(workers: ServiceWorkers) {
    this.#workers = workers
    workers.addEventListener('message', (event) => {
      const { data, ports } = event as MessageEvent<unknown>
      const request = parseOpenRequest(data)
      const [port] = ports
      if (request !== null && port !== undefined) this.#serve(port, request.purpose, request.ticket)
    })
  }

  /** Whether the worker controls this tab. The first call registers it. */
  ready(): Promise<boolean> {
    this.#ready ??= this.#start().catch(() => false)
    return this.#ready
  }

  async #start(): Promise<boolean> {
    const workers = this.#workers
    const controlled = new Promise<void>((resolve) => workers.addEventListener('controllerchange', () => resolve()))
    const claim = async () => {
      await workers.register('/worker.js', { scope: '/', updateViaCache: 'none' })
      const { active } = await workers.ready
      if (workers.controller !== null) return
      active?.postMessage({ streaming: 'claim' })
      await controlled
    }
    const timeout = new Promise<void>((resolve) => setTimeout(resolve, CONTROL_TIMEOUT_MS))
    await Promise.race([claim(), timeout])
    return workers.controller !== null
  }

  /** Offers a file under a new URL until it is withdrawn. */
  offer(purpose: Purpose, file: OfferedFile): { url: string; withdraw: () => void } {
    const ticket = crypto.randomUUID()
    this.#tickets.set(ticket, { purpose, file, streams: new Set() })
    for (const oldest of this.#tickets.keys()) {
      if (this.#tickets.size <= TICKETS_MAX) break
      this.#withdraw(oldest)
    }
    return { url: fileUrl(purpose, file.cid, ticket, file.name), withdraw: () => this.#withdraw(ticket) }
  }

  /** Withdraws all offers, as the tab goes away; open streams end with an error at once. */
  close(): void {
    for (const ticket of [...this.#tickets.keys()]) this.#withdraw(ticket)
  }

  #withdraw(ticket: string): void {
    const streams = this.#tickets.get(ticket)?.streams ?? []
    this.#tickets.delete(ticket)
    for (const stream of streams) stream.abort(new DOMException('cannot read the file: its offer was withdrawn', 'AbortError'))
  }

  #serve(port: MessagePort, purpose: Purpose, ticket: string): void {
    const known = this.#tickets.get(ticket)
    const send = (reply: PullReply, transfer: Transferable[] = []) => port.postMessage(reply, transfer)
    if (known === undefined || known.purpose !== purpose) {
      send({ kind: 'unknown' })
      port.close()
      return
    }
    const { file, streams } = known
    const stop = new AbortController()
    for (const oldest of streams) {
      if (streams.size < STREAMS_PER_TICKET_MAX) break
      oldest.abort(new DOMException('cannot read the file: too many streams of it are open', 'AbortError'))
    }
    streams.add(stop)
    this.#countStream(1)
    let isOver = false
    const end = (reason: Error | null) => {
      if (isOver) return
      isOver = true
      streams.delete(stop)
      this.#countStream(-1)
      if (reason !== null) send({ kind: 'failed', reason: reason.message })
      port.onmessage = null
      file.onEnd?.(reason)
      stop.abort(reason ?? new DOMException('the stream has ended', 'AbortError'))
    }
    stop.signal.addEventListener('abort', () => end(stop.signal.reason), { once: true })
    let reader: ReadableStreamDefaultReader<Bytes> | null = null
    let reading = Promise.resolve()
    let remaining = 0
    const pull = async () => {
      if (reader === null || isOver) return
      try {
        const { done, value } = await reader.read()
        if (isOver) return
        if (done) throw new Error('cannot read the file: it is shorter than its stated size')
        this.#keepAlive()
        remaining -= value.length
        // Copied, because a transferred buffer is detached here and may belong to a block of the page.
        const { buffer } = value.slice()
        send({ kind: 'bytes', bytes: buffer }, [buffer])
        if (remaining <= 0) end(null)
      } catch (error) {
        end(error instanceof Error ? error : new Error(String(error)))
      }
    }
    port.onmessage = ({ data }) => {
      const request = parsePullRequest(data)
      switch (request?.kind) {
        case 'range':
          if (reader !== null) return
          remaining = request.to - request.from
          reader = file.read(request.from, request.to, stop.signal).getReader()
          file.onStart?.()
          return
        case 'pull':
          reading = reading.then(pull)
          return
        case 'cancel':
          end(null)
          return
        case undefined:
          return
      }
    }
    send({ kind: 'offered', size: file.size, mime: file.mime, name: file.name })
  }

  #countStream(change: 1 | -1): void {
    this.#openStreams += change
    if (this.#openStreams > 0) this.#keepAliveTimer ??= setInterval(() => this.#keepAlive(), KEEP_ALIVE_INTERVAL_MS)
    else if (this.#keepAliveTimer !== null) {
      clearInterval(this.#keepAliveTimer)
      this.#keepAliveTimer = null
    }
  }

  /** Also called for each chunk, because the timers of a hidden tab may run only once a minute. */
  #keepAlive(): void {
    const now = performance.now()
    if (now - this.#keepAliveSentAt < KEEP_ALIVE_INTERVAL_MS / 2) return
    this.#keepAliveSentAt = now
    this.#workers.controller?.postMessage({ streaming: 'keep-alive' })
  }
}
