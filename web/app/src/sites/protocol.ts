/** Sent by the worker of a site to the tab, through the shell. The reply goes to the port that comes with it. */
export interface ReadRequest {
  readonly kind: 'read'
  /** The path of the URL, still percent-encoded. */
  readonly path: string
}

/** The tab's reply to a `ReadRequest`. */
export type ReadReply =
  | {
      readonly kind: 'file'
      readonly status: number
      readonly type: string
      readonly blob: Blob
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

/** Parses a message from a site's origin. The site's own scripts may have sent it, so it is untrusted. */
export function parseShellMessage(message: unknown): ShellMessage | null {
  if (typeof message !== 'object' || message === null) return null
  const { kind, path, url, reason } = message as Record<string, unknown>
  switch (kind) {
    case 'ready':
    case 'lost':
      return { kind }
    case 'failed':
      return { kind, reason: typeof reason === 'string' ? reason.slice(0, REASON_LENGTH_MAX) : '' }
    case 'read':
    case 'location':
      return isUrlText(path) && path.startsWith('/') ? { kind, path } : null
    case 'outside':
      return isUrlText(url) ? { kind, url } : null
    default:
      return null
  }
}

function isUrlText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= URL_LENGTH_MAX
}
