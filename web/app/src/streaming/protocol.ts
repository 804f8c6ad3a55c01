/**
 * The messages between the app's service worker and its tabs. Either side may be of an older build, because a worker
 * outlives tabs and tabs outlive a worker. An unknown message is answered with `unknown`, or ignored.
 */

/** The purpose of an offered file: for a player of this tab, or for saving to disk. */
export type Purpose = 'stream' | 'save'

/** From the worker to a tab, with a port for everything else. */
export type OpenRequest = { readonly streaming: 'open'; readonly purpose: Purpose; readonly ticket: string }

/** From a tab to the worker. */
export type WorkerCommand =
  /** Streams are open: the browser must not stop the worker. */
  | { readonly streaming: 'keep-alive' }
  /** This tab was loaded without the worker, and asks it to take control. */
  | { readonly streaming: 'claim' }

/** From the worker, over the port. */
export type PullRequest =
  | { readonly kind: 'range'; readonly from: number; readonly to: number }
  /** Requests one more chunk of the range. */
  | { readonly kind: 'pull' }
  | { readonly kind: 'cancel' }

/** From the tab, over the port. */
export type PullReply =
  | { readonly kind: 'offered'; readonly size: number; readonly mime: string; readonly name: string }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'bytes'; readonly bytes: ArrayBuffer }
  | { readonly kind: 'failed'; readonly reason: string }

export function parseOpenRequest(message: unknown): OpenRequest | null {
  if (!isRecord(message) || message['streaming'] !== 'open') return null
  const { purpose, ticket } = message
  const isKnown = (purpose === 'stream' || purpose === 'save') && typeof ticket === 'string'
  return isKnown ? { streaming: 'open', purpose, ticket } : null
}

export function parseWorkerCommand(message: unknown): WorkerCommand | null {
  if (!isRecord(message)) return null
  const { streaming } = message
  return streaming === 'keep-alive' || streaming === 'claim' ? { streaming } : null
}

export function parsePullRequest(message: unknown): PullRequest | null {
  if (!isRecord(message)) return null
  const { kind, from, to } = message
  if (kind === 'pull' || kind === 'cancel') return { kind }
  return kind === 'range' && isOffset(from) && isOffset(to) && from <= to ? { kind, from, to } : null
}

export function parsePullReply(message: unknown): PullReply | null {
  if (!isRecord(message)) return null
  const { kind, size, mime, name, bytes, reason } = message
  if (kind === 'unknown') return { kind }
  if (kind === 'failed') return { kind, reason: typeof reason === 'string' ? reason : 'unknown' }
  if (kind === 'bytes') return bytes instanceof ArrayBuffer ? { kind, bytes } : null
  if (kind !== 'offered' || !isOffset(size) || typeof mime !== 'string' || typeof name !== 'string') return null
  return { kind, size, mime, name }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function isOffset(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
