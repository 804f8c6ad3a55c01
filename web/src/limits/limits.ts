/** One bound of the server, as it tells it. */
export interface Limit {
  value: number
  /** Such as `bytes`, `peers`, `blocks`. */
  unit: string
  /** One sentence for people: what happens at the bound. */
  whenReached: string
}

/** The bounds a page lives within: the ones we act on by name, and all of them for showing. */
export interface Limits {
  pageBytesMax: number
  relayFrameBytesMax: number
  relayBytesPerSecond: number
  peersPerPageMax: number
  blocksInFlightMax: number
  frameBytesMax: number
  /** Where a page is reported to the operator, with `{cid}` for the page; `null` for nowhere. */
  report: string | null
  all: ReadonlyMap<string, Limit>
  /** The host and port below which pages have origins of their own, `null` where they have none. */
  sitesBelow: string | null
}

/** What we assume of a server that does not tell. */
export const defaultLimits: Limits = {
  pageBytesMax: 4 * 1024 * 1024 * 1024,
  relayFrameBytesMax: 65_536,
  relayBytesPerSecond: 128 * 1024 * 1024,
  peersPerPageMax: 10_000,
  blocksInFlightMax: 8,
  frameBytesMax: 131_072,
  report: null,
  all: new Map(),
  sitesBelow: null,
}

/** Asks the server for its limits. A server that cannot tell them is not an error: ours are used. */
export async function fetchLimits(
  fetch: typeof globalThis.fetch,
  options: { url?: string; signal?: AbortSignal } = {},
): Promise<Limits> {
  try {
    const response = await fetch(options.url ?? '/limits', options.signal ? { signal: options.signal } : {})
    return response.ok ? parseLimits(await response.json()) : defaultLimits
  } catch {
    options.signal?.throwIfAborted()
    return defaultLimits
  }
}

/** Reads the body of `GET /limits`. What is missing or not a positive whole number keeps our value. */
export function parseLimits(body: unknown): Limits {
  const all = new Map<string, Limit>()
  const named = field(body, 'limits')
  if (typeof named === 'object' && named !== null) {
    for (const [name, told] of Object.entries(named)) {
      const value = field(told, 'value')
      const unit = field(told, 'unit')
      const whenReached = field(told, 'when_reached')
      if (typeof value !== 'number' || !Number.isSafeInteger(value) || value <= 0) continue
      all.set(name, {
        value,
        unit: typeof unit === 'string' ? unit : '',
        whenReached: typeof whenReached === 'string' ? whenReached : '',
      })
    }
  }
  const value = (name: string, ours: number) => all.get(name)?.value ?? ours
  return {
    pageBytesMax: value('page_bytes_max', defaultLimits.pageBytesMax),
    relayFrameBytesMax: value('relay_frame_bytes_max', defaultLimits.relayFrameBytesMax),
    relayBytesPerSecond: value('relay_bytes_per_second', defaultLimits.relayBytesPerSecond),
    peersPerPageMax: value('peers_per_page_max', defaultLimits.peersPerPageMax),
    blocksInFlightMax: value('blocks_in_flight_max', defaultLimits.blocksInFlightMax),
    frameBytesMax: value('frame_bytes_max', defaultLimits.frameBytesMax),
    report: reportOf(field(body, 'report')),
    all,
    sitesBelow: sitesBelowOf(field(body, 'sites')),
  }
}

/** What can stand in a policy and an address. */
function sitesBelowOf(told: unknown): string | null {
  return typeof told === 'string' && /^[a-z0-9.-]+(?::\d+)?$/.test(told) ? told : null
}

/** Only what a link may be: the server is ours, but what its operator typed is not. */
function reportOf(told: unknown): string | null {
  return typeof told === 'string' && /^(?:https?:\/\/|mailto:)/.test(told) ? told : null
}

function field(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null && Object.hasOwn(of, name)
    ? (of as Record<string, unknown>)[name]
    : undefined
}
