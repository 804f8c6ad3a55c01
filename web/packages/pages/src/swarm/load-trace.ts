import type { Message, PeerId } from '../bitswap/index.ts'
import type { Clock, Millis } from './clock.ts'

/** Spans of one report. Further peers are left out. */
const SPANS_MAX = 64

/** A span of the report to the server. All have the page's load above them. */
interface Span {
  readonly name: 'join' | 'introduce' | 'connect' | 'blocks from peer'
  readonly id: string
  readonly startedAt: Millis
  endedAt: Millis | null
  readonly peer?: PeerId
  peers?: number
  blocks?: number
  bytes?: number
}

/**
 * The distributed trace of a page's load. The tab makes its id, and sends the place of its spans with the join and with
 * the requests for blocks. So the spans of the server and of serving peers have the same id. The tab's own spans are
 * reported to the server when the page is complete.
 */
export class LoadTrace {
  readonly #clock: Clock
  readonly #random: () => number
  readonly #trace: string
  readonly #root: string
  readonly #startedAt: Millis
  readonly #join: Span
  #introduction: Span | null = null
  readonly #blocks = new Map<PeerId, Span>()
  readonly #connects = new Map<PeerId, Span>()
  #isReported = false

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock
    this.#random = random
    this.#trace = this.#id() + this.#id()
    this.#root = this.#id()
    this.#startedAt = clock.now()
    this.#join = this.#begin('join')
  }

  /** The place of the span of the join. */
  get ofJoin(): string {
    return this.#place(this.#join.id)
  }

  /** The topic was joined, and so many peers are known. */
  noteJoined(peers: number): void {
    if (this.#introduction !== null) return
    this.#end(this.#join)
    this.#join.peers = peers
    this.#introduction = this.#begin('introduce')
  }

  /** A peer is known. */
  noteIntroduced(): void {
    if (this.#introduction !== null) this.#end(this.#introduction)
  }

  /** The place of the span that a message with requests to this peer belongs to; `null` if the peer knows it. */
  placeFor(peer: PeerId, message: Message): string | null {
    if (this.#isReported || this.#blocks.has(peer) || !message.wants.some(({ cancel }) => !cancel)) return null
    const span = this.#begin('blocks from peer', peer)
    this.#blocks.set(peer, span)
    return this.#place(span.id)
  }

  noteBlock(peer: PeerId, bytes: number): void {
    const span = this.#blocks.get(peer)
    if (span === undefined) return
    span.blocks = (span.blocks ?? 0) + 1
    span.bytes = (span.bytes ?? 0) + bytes
    span.endedAt = this.#clock.now()
  }

  /** A direct connection to a peer is being made. */
  noteConnecting(peer: PeerId): void {
    if (!this.#connects.has(peer)) this.#connects.set(peer, this.#begin('connect', peer))
  }

  noteConnected(peer: PeerId): void {
    const span = this.#connects.get(peer)
    if (span !== undefined) this.#end(span)
  }

  /** The page is complete. Returns the report; `null` if there was one. */
  report(): Record<string, unknown> | null {
    if (this.#isReported) return null
    this.#isReported = true
    const now = this.#clock.now()
    const spans = [this.#join, this.#introduction, ...this.#connects.values(), ...this.#blocks.values()]
      .filter((span) => span !== null)
      .slice(0, SPANS_MAX)
    return {
      traceparent: this.#place(this.#root),
      took_ms: round(now - this.#startedAt),
      spans: spans.map(({ name, id, startedAt, endedAt, ...details }) => ({
        name,
        id,
        start_ms: round(startedAt - this.#startedAt),
        took_ms: round((endedAt ?? now) - startedAt),
        ...details,
      })),
    }
  }

  #begin(name: Span['name'], peer?: PeerId): Span {
    const span = { name, id: this.#id(), startedAt: this.#clock.now(), endedAt: null }
    return peer === undefined ? span : { ...span, peer }
  }

  /** The first end counts. */
  #end(span: Span): void {
    span.endedAt ??= this.#clock.now()
  }

  #place(id: string): string {
    return `00-${this.#trace}-${id}-01`
  }

  /** Sixteen hexadecimal digits that are not all zeros. */
  #id(): string {
    const half = () =>
      Math.floor(this.#random() * 2 ** 32)
        .toString(16)
        .padStart(8, '0')
    const id = half() + half()
    return /^0+$/.test(id) ? this.#id() : id
  }
}

function round(ms: Millis): number {
  return Math.max(0, Math.round(ms * 1000) / 1000)
}

/** Makes the trace of a load. `null`: the server records no traces, or not this one. `sample` is the share of loads that it records. */
export type TraceLoad = (sample: number, clock: Clock, random: () => number) => LoadTrace | null

export const traceLoad: TraceLoad = (sample, clock, random) => (sample > 0 && random() < sample ? new LoadTrace(clock, random) : null)
