/** What the worker of a site asks of the tab, by way of the shell; its answer goes to the port that comes along. */
export interface Read {
  readonly kind: 'read'
  /** The path of the address, still encoded. */
  readonly address: string
}

/** The tab's answer to a `Read`. */
export type ReadAnswer =
  | {
      readonly kind: 'file'
      readonly status: number
      readonly type: string
      readonly blob: Blob
      /** Whether the reader lets scripts run. */
      readonly scripts: boolean
      /** The origin of the app, which alone may show the site. */
      readonly app: string
    }
  | { readonly kind: 'failed'; readonly reason: string }

/** What the shell tells the tab. */
export type Told =
  | { kind: 'ready' }
  | { kind: 'failed'; reason: string }
  | Read
  /** The frame shows this path of the site now. */
  | { kind: 'at'; address: string }
  /** The frame shows something that is not the site: a browser's page of error, most often. */
  | { kind: 'lost' }
  /** A link that was followed leads out of the site. */
  | { kind: 'outside'; address: string }

/** What the tab tells the shell: to show a path, anew or in the frame that is there. */
export interface Show {
  readonly kind: 'show'
  readonly address: string
  readonly scripts: boolean
}

/** Longest address that is taken from a site. */
const ADDRESS_LENGTH_MAX = 8192

/** Reads what came from a site's origin, where strangers' scripts may have written it. */
export function readTold(message: unknown): Told | null {
  if (typeof message !== 'object' || message === null) return null
  const { kind, address, reason } = message as Record<string, unknown>
  const place = typeof address === 'string' && address.length <= ADDRESS_LENGTH_MAX ? address : null
  switch (kind) {
    case 'ready':
    case 'lost':
      return { kind }
    case 'failed':
      return { kind, reason: typeof reason === 'string' ? reason.slice(0, 200) : '' }
    case 'read':
    case 'at':
      return place?.startsWith('/') === true ? { kind, address: place } : null
    case 'outside':
      return place === null ? null : { kind, address: place }
    default:
      return null
  }
}
