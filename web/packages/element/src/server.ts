import { connect, defaultLimits, fetchLimits, openPage, type Connection, type Limits, type PageSession } from '@watchfire/pages'
import type { Cid } from '@watchfire/pages/content'
import { loadDialling, loadLive } from '@watchfire/pages/swarm'

/** Longest wait for the limits of a server. Then the defaults apply. */
const LIMITS_MS = 10_000

/** A connection to a server, shared by all elements of the document that name the server. */
export interface Server {
  /** With a slash at its end. */
  readonly address: string
  readonly connection: Connection
  /** Those of the server, or the defaults if it does not tell them. Never rejects. */
  readonly limits: Promise<Limits>
  /** Opens a page. Elements of this document that show the same page share it. */
  open(cid: Cid, limits: Limits): PageSession
  /** Closes the connection, unless another element uses it. */
  release(): void
}

interface SharedServer {
  readonly connection: Connection
  readonly limits: Promise<Limits>
  users: number
}

const servers = new Map<string, SharedServer>()

/** The address of a server, with a slash at its end. `null` if it is not a valid HTTP address. */
export function addressOf(text: string): string | null {
  // A host alone would be a path below this document.
  if (!/^\s*(?:https?:|\/|$)/i.test(text) || !URL.canParse(text, document.baseURI)) return null
  const url = new URL('/', new URL(text, document.baseURI))
  return /^https?:$/.test(url.protocol) ? url.href : null
}

/** Throws if the browser forbids the connection, such as one without TLS from a document with TLS. */
export function useServer(address: string): Server {
  const shared: SharedServer = servers.get(address) ?? {
    connection: connect(`${address.replace(/^http/, 'ws')}socket`),
    limits: fetchLimits(fetch, { url: `${address}limits`, signal: AbortSignal.timeout(LIMITS_MS) }).catch(() => defaultLimits),
    users: 0,
  }
  servers.set(address, shared)
  shared.users += 1
  let isReleased = false
  return {
    address,
    connection: shared.connection,
    limits: shared.limits,
    open: (cid, limits) => openPage(cid.text, { connection: shared.connection, limits, live: loadLive, direct: loadDialling }),
    release() {
      if (isReleased) return
      isReleased = true
      shared.users -= 1
      if (shared.users > 0) return
      servers.delete(address)
      shared.connection.close()
    },
  }
}
