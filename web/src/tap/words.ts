/**
 * What the worker and the tabs say to each other. The worker outlives tabs and they it, and either may be of an older
 * build: what cannot be read is answered as unknown, or not at all.
 */

/** How a file is given out: to a player of this tab, or to the disk. */
export type Way = 'stream' | 'save'

/** From the worker to a tab, with a port for everything else. */
export type Ask = { readonly tap: 'open'; readonly way: Way; readonly ticket: string }

/** From a tab to the worker. */
export type Call =
  /** Streams are open: stay awake. */
  | { readonly tap: 'awake' }
  /** This tab was loaded past the worker, and wants to be served by it. */
  | { readonly tap: 'claim' }

/** From the worker, over the port. */
export type Order =
  | { readonly kind: 'range'; readonly from: number; readonly to: number }
  /** One more piece of it. */
  | { readonly kind: 'pull' }
  | { readonly kind: 'cancel' }

/** From the tab, over the port. */
export type Word =
  | { readonly kind: 'offered'; readonly size: number; readonly mime: string; readonly name: string }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'bytes'; readonly bytes: ArrayBuffer }
  | { readonly kind: 'failed'; readonly reason: string }

export function readAsk(told: unknown): Ask | null {
  if (!isRecord(told) || told['tap'] !== 'open') return null
  const { way, ticket } = told
  return (way === 'stream' || way === 'save') && typeof ticket === 'string' ? { tap: 'open', way, ticket } : null
}

export function readCall(told: unknown): Call | null {
  if (!isRecord(told)) return null
  return told['tap'] === 'awake' || told['tap'] === 'claim' ? { tap: told['tap'] } : null
}

export function readOrder(told: unknown): Order | null {
  if (!isRecord(told)) return null
  const { kind, from, to } = told
  if (kind === 'pull' || kind === 'cancel') return { kind }
  return kind === 'range' && isPlace(from) && isPlace(to) && from <= to ? { kind, from, to } : null
}

export function readWord(told: unknown): Word | null {
  if (!isRecord(told)) return null
  const { kind, size, mime, name, bytes, reason } = told
  if (kind === 'unknown') return { kind }
  if (kind === 'failed') return { kind, reason: typeof reason === 'string' ? reason : 'unknown' }
  if (kind === 'bytes') return bytes instanceof ArrayBuffer ? { kind, bytes } : null
  if (kind !== 'offered' || !isPlace(size) || typeof mime !== 'string' || typeof name !== 'string') return null
  return { kind, size, mime, name }
}

function isRecord(told: unknown): told is Record<string, unknown> {
  return typeof told === 'object' && told !== null
}

function isPlace(told: unknown): told is number {
  return typeof told === 'number' && Number.isSafeInteger(told) && told >= 0
}
