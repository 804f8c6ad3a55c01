import { fieldsOf } from './fields.ts'

/** One limit of the server, from `GET /limits`. */
export interface Limit {
  value: number
  /** Such as `bytes`, `peers`, `blocks`. */
  unit: string
  /** One sentence for people: what happens at the limit. */
  whenReached: string
}

/** The limits of a page: those that the client applies, and all of them for display. */
export interface Limits {
  pageBytesMax: number
  relayFrameBytesMax: number
  blocksInFlightMax: number
  /** The address for reports of a page to the operator, with `{cid}` for the page; `null` when there is no address. */
  report: string | null
  /** The share of page loads whose traces the server records. */
  traceSample: number
  /** Whether the server has chat rooms. */
  rooms: boolean
  all: ReadonlyMap<string, Limit>
  /** The host and port below which pages have origins of their own; `null` when they have none. */
  sitesBelow: string | null
  /** Other servers at which pages of this server may be, as it names them: `readNeighbours` parses them. */
  neighbours?: unknown
}

/** The limits of a server that does not report any. */
export const defaultLimits: Limits = {
  pageBytesMax: 4 * 1024 * 1024 * 1024,
  relayFrameBytesMax: 65_536,
  blocksInFlightMax: 8,
  report: null,
  traceSample: 0,
  rooms: false,
  all: new Map(),
  sitesBelow: null,
}

/** The longest wait for the limits, without a signal of the caller. A page is opened only after it. */
const TIMEOUT_MS = 10_000

/** Requests the server's limits. A server that cannot report them, or not in time, is not an error: the defaults apply. */
export async function fetchLimits(fetch: typeof globalThis.fetch, options: { url?: string; signal?: AbortSignal } = {}): Promise<Limits> {
  try {
    const response = await fetch(options.url ?? '/limits', { signal: options.signal ?? AbortSignal.timeout(TIMEOUT_MS) })
    return response.ok ? parseLimits(await response.json()) : defaultLimits
  } catch {
    options.signal?.throwIfAborted()
    return defaultLimits
  }
}

/** Parses the body of `GET /limits`. A value that is missing or not a positive integer keeps its default. */
export function parseLimits(body: unknown): Limits {
  const { limits, report, traces, rooms, sites, neighbours } = fieldsOf(body)
  const all = new Map<string, Limit>()
  for (const [name, limit] of Object.entries(fieldsOf(limits))) {
    const { value, unit, when_reached: whenReached } = fieldsOf(limit)
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value <= 0) continue
    all.set(name, {
      value,
      unit: textOf(unit, /^/) ?? '',
      whenReached: textOf(whenReached, /^/) ?? '',
    })
  }
  const value = (name: string, ours: number) => all.get(name)?.value ?? ours
  return {
    pageBytesMax: value('page_bytes_max', defaultLimits.pageBytesMax),
    relayFrameBytesMax: value('relay_frame_bytes_max', defaultLimits.relayFrameBytesMax),
    blocksInFlightMax: value('blocks_in_flight_max', defaultLimits.blocksInFlightMax),
    // The operator's setting is not trusted to be a safe link.
    report: textOf(report, /^(?:https?:\/\/|mailto:)/),
    traceSample: shareOf(fieldsOf(traces)['sample']),
    rooms: rooms === true,
    all,
    // Only characters that are valid in a policy and a URL.
    sitesBelow: textOf(sites, /^[a-z0-9.-]+(?::\d+)?$/),
    neighbours,
  }
}

/** A number from 0 to 1. */
function shareOf(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.min(value, 1) : 0
}

/** A text of this form. `null` for anything else. */
function textOf(value: unknown, form: RegExp): string | null {
  return typeof value === 'string' && form.test(value) ? value : null
}
