import type { Connection } from '@watchfire/client/connection'
import { isPublic, originOf as originOfText } from '../../links/servers.ts'

/** Other servers that the pages of a connection are connected to. When the limit is reached, pages join no further ones. */
const CONNECTIONS_MAX = 12
/** Longer than the origin of a server. */
const ORIGIN_MAX = 256

interface Shared {
  readonly connection: Connection
  /** The pages that use it. */
  users: number
}

const opened = new WeakMap<Connection, Map<string, Shared>>()

/** The connection to another server, which all pages of `home` share. `null`: the limit is reached, or the browser forbids it. */
export function openConnection(home: Connection, origin: string): Connection | null {
  const all = opened.get(home) ?? new Map<string, Shared>()
  opened.set(home, all)
  try {
    const shared =
      all.get(origin) ??
      (all.size < CONNECTIONS_MAX ? { connection: home.connect(`${origin.replace(/^http/, 'ws')}/socket`), users: 0 } : null)
    if (shared === null) return null
    shared.users++
    all.set(origin, shared)
    return shared.connection
  } catch {
    return null
  }
}

/** A page uses the connection no more. That of no page is closed. */
export function releaseConnection(home: Connection, origin: string): void {
  const all = opened.get(home)
  const shared = all?.get(origin)
  if (shared === undefined || --shared.users > 0) return
  all?.delete(origin)
  shared.connection.close()
}

/**
 * The origin that a server is named with, such as `https://a.example`. `null`: it is not valid, or it is not for a document at `page`: that
 * is the document's own server, has no TLS although the document has, or is in a local network although the document is on the internet.
 */
export function originOf(named: unknown, page: Pick<Location, 'origin' | 'hostname'> | undefined = globalThis.location): string | null {
  const origin = typeof named === 'string' && named.length <= ORIGIN_MAX ? originOfText(named) : null
  if (origin === null || origin === page?.origin) return null
  const { protocol, hostname } = new URL(origin)
  const isLoopback = /^(?:.+\.)?localhost$|^127(?:\.\d+){3}$|^\[::1\]$/.test(hostname)
  const isAllowed = protocol === 'https:' || (protocol === 'http:' && (isLoopback || !page?.origin.startsWith('https:')))
  const isReachable = page === undefined || !isPublic(page.hostname) || isPublic(hostname)
  return isAllowed && isReachable ? origin : null
}
