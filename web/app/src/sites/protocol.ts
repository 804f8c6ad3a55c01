import type { Range } from '../service-worker/range.ts'

/** Sent by the worker of a site to the tab, through the shell. The reply goes to the port that comes with it. */
export interface ReadRequest {
  readonly kind: 'read'
  /** The path of the URL, still percent-encoded. */
  readonly path: string
  /** The `Range` header of the request; `null` when there is none. */
  readonly range: string | null
}

/** The tab's reply to a `ReadRequest`. */
export type ReadReply =
  | {
      readonly kind: 'file'
      readonly status: number
      readonly type: string
      /** The part of the file, or all of it without one. The tab cuts it, because Firefox may never read a slice in the worker. */
      readonly blob: Blob
      readonly part: Range | 'unsatisfiable' | null
      /** The size of the whole file, in bytes. */
      readonly size: number
      /** Whether the reader has allowed scripts. */
      readonly scripts: boolean
      /** The origin of the app, the only one that may embed the site. */
      readonly app: string
    }
  | { readonly kind: 'failed'; readonly reason: string }

/** From the shell to the tab. */
export type ShellMessage =
  | { kind: 'ready' }
  | { kind: 'failed'; reason: string }
  | ReadRequest
  /** The frame now shows this path of the site. */
  | { kind: 'location'; path: string }
  /** The frame shows something other than the site, most often an error page of the browser. */
  | { kind: 'lost' }
  /** A link was followed that leads to another site. */
  | { kind: 'outside'; url: string }

/** From the tab to the shell: show a path in a new frame. */
export interface ShowCommand {
  readonly kind: 'show'
  readonly path: string
  readonly scripts: boolean
}

/** Longest path or URL that is accepted from a site; a longer one counts as absent. */
const URL_LENGTH_MAX = 8192
const REASON_LENGTH_MAX = 200
/** Longest `Range` header that is accepted; a longer one is ignored. */
const RANGE_LENGTH_MAX = 100

/** Parses a message from a site's origin. The site's own scripts may have sent it, so it is untrusted. */
export function parseShellMessage(message: unknown): ShellMessage | null {
  if (typeof message !== 'object' || message === null) return null
  const { kind, path, range, url, reason } = message as Record<string, unknown>
  switch (kind) {
    case 'ready':
    case 'lost':
      return { kind }
    case 'failed':
      return { kind, reason: typeof reason === 'string' ? reason.slice(0, REASON_LENGTH_MAX) : '' }
    case 'read':
      if (!isPath(path)) return null
      // A worker of an older build sends none.
      return { kind, path, range: typeof range === 'string' && range.length <= RANGE_LENGTH_MAX ? range : null }
    case 'location':
      return isPath(path) ? { kind, path } : null
    case 'outside':
      return isUrlText(url) ? { kind, url } : null
    default:
      return null
  }
}

function isPath(value: unknown): value is string {
  return isUrlText(value) && value.startsWith('/')
}

function isUrlText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= URL_LENGTH_MAX
}
