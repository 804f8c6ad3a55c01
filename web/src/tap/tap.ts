import type { Bytes } from '../content/index.ts'
import { fileAddress } from './request.ts'
import { readAsk, readOrder, type Call, type Way, type Word } from './words.ts'

/** Files given out at once; the oldest one makes room for one more. */
const TICKETS_MAX = 64
/** Streams of one file at once: a player opens a new one wherever it jumps, and may leave the old one hanging. */
const STREAMS_PER_TICKET_MAX = 4
/** Between two words that keep the worker awake while streams are open. */
const AWAKE_INTERVAL = 20_000
/** How long a tab that was loaded past the worker waits to be served by it. */
const CLAIMED_WITHIN = 3000

/** A file to give out. */
export interface Given {
  readonly cid: string
  readonly name: string
  readonly mime: string
  readonly size: number
  read(from: number, to: number, signal: AbortSignal): ReadableStream<Bytes>
  /** Called when somebody begins to read it. */
  begun?(): void
  /** Called when what was begun has ended; with what went wrong, if anything did. */
  ended?(reason: Error | null): void
}

/** Of `navigator.serviceWorker`, what is used. */
export interface Workers {
  readonly controller: { postMessage(call: Call): void } | null
  readonly ready: Promise<{ readonly active: { postMessage(call: Call): void } | null }>
  register(script: string, options: { scope: string; updateViaCache: 'none' }): Promise<unknown>
  addEventListener(type: 'message' | 'controllerchange', listener: (event: Event) => void): void
}

/** This tab's side of the service worker: gives out files by address, for players and for saving. */
export class Tap {
  readonly #workers: Workers
  readonly #tickets = new Map<string, { way: Way; given: Given; streams: Set<AbortController> }>()
  #ready: Promise<boolean> | null = null
  #open = 0
  #awakeSaidAt = -Infinity
  #awake: ReturnType<typeof setInterval> | null = null

  constructor(workers: Workers) {
    this.#workers = workers
    workers.addEventListener('message', (event) => {
      const { data, ports } = event as MessageEvent<unknown>
      const ask = readAsk(data)
      const [port] = ports
      if (ask !== null && port !== undefined) this.#answer(port, ask.way, ask.ticket)
    })
  }

  /** Whether the worker serves this tab; the first call starts it. */
  ready(): Promise<boolean> {
    this.#ready ??= this.#start().catch(() => false)
    return this.#ready
  }

  async #start(): Promise<boolean> {
    const workers = this.#workers
    const controlled = new Promise<void>((resolve) => workers.addEventListener('controllerchange', () => resolve()))
    await workers.register('/worker.js', { scope: '/', updateViaCache: 'none' })
    const late = new Promise<void>((resolve) => setTimeout(resolve, CLAIMED_WITHIN))
    const claimed = workers.ready.then(({ active }) => {
      if (workers.controller !== null) return
      active?.postMessage({ tap: 'claim' })
      return controlled
    })
    await Promise.race([claimed, late])
    return workers.controller !== null
  }

  /** An address at which the file is given out, until it is withdrawn. */
  give(way: Way, given: Given): { address: string; withdraw: () => void } {
    const ticket = crypto.randomUUID()
    this.#tickets.set(ticket, { way, given, streams: new Set() })
    for (const oldest of this.#tickets.keys()) {
      if (this.#tickets.size <= TICKETS_MAX) break
      this.#withdraw(oldest)
    }
    return { address: fileAddress(way, given.cid, ticket, given.name), withdraw: () => this.#withdraw(ticket) }
  }

  /** The tab goes away: whoever reads from it hears so at once. */
  close(): void {
    for (const ticket of [...this.#tickets.keys()]) this.#withdraw(ticket)
  }

  #withdraw(ticket: string): void {
    const streams = this.#tickets.get(ticket)?.streams ?? []
    this.#tickets.delete(ticket)
    for (const stream of streams) stream.abort(new DOMException('given out no longer', 'AbortError'))
  }

  #answer(port: MessagePort, way: Way, ticket: string): void {
    const known = this.#tickets.get(ticket)
    const say = (word: Word, transfer: Transferable[] = []) => port.postMessage(word, transfer)
    if (known === undefined || known.way !== way) {
      say({ kind: 'unknown' })
      port.close()
      return
    }
    const { given, streams } = known
    const stop = new AbortController()
    for (const oldest of streams) {
      if (streams.size < STREAMS_PER_TICKET_MAX) break
      oldest.abort(new DOMException('too many parts read at once', 'AbortError'))
    }
    streams.add(stop)
    this.#stayAwake(1)
    let isOver = false
    const end = (reason: Error | null) => {
      if (isOver) return
      isOver = true
      streams.delete(stop)
      this.#stayAwake(-1)
      if (reason !== null) say({ kind: 'failed', reason: reason.message })
      port.onmessage = null
      given.ended?.(reason)
      stop.abort(reason ?? new DOMException('it has been read', 'AbortError'))
    }
    stop.signal.addEventListener('abort', () => end(stop.signal.reason), { once: true })
    let reader: ReadableStreamDefaultReader<Bytes> | null = null
    let reading = Promise.resolve()
    let owed = 0
    const pull = async () => {
      if (reader === null || isOver) return
      try {
        const { done, value } = await reader.read()
        if (isOver) return
        if (done) throw new Error('a file shorter than it was said to be')
        this.#sayAwake()
        owed -= value.length
        // A copy: what is handed over is gone here, and it may be the page's own block.
        const { buffer } = value.slice()
        say({ kind: 'bytes', bytes: buffer }, [buffer])
        if (owed <= 0) end(null)
      } catch (error) {
        end(error instanceof Error ? error : new Error(String(error)))
      }
    }
    port.onmessage = ({ data }) => {
      const order = readOrder(data)
      switch (order?.kind) {
        case 'range':
          if (reader !== null) return
          owed = order.to - order.from
          reader = given.read(order.from, order.to, stop.signal).getReader()
          given.begun?.()
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
    say({ kind: 'offered', size: given.size, mime: given.mime, name: given.name })
  }

  #stayAwake(more: 1 | -1): void {
    this.#open += more
    if (this.#open > 0) this.#awake ??= setInterval(() => this.#sayAwake(), AWAKE_INTERVAL)
    else if (this.#awake !== null) {
      clearInterval(this.#awake)
      this.#awake = null
    }
  }

  /** Said on the way too: a hidden tab's timers may run once a minute only. */
  #sayAwake(): void {
    const now = performance.now()
    if (now - this.#awakeSaidAt < AWAKE_INTERVAL / 2) return
    this.#awakeSaidAt = now
    this.#workers.controller?.postMessage({ tap: 'awake' })
  }
}
