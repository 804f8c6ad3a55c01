import { connect, fetchLimits, type Connection, type Limits } from '@watchfire/pages'

/** A connection to a server, shared by all elements of the document that name the server. */
export interface Server {
  /** With a slash at its end. */
  readonly address: string
  readonly connection: Connection
  readonly limits: Promise<Limits>
  /** Closes the connection, unless another element uses it. */
  release(): void
}

const servers = new Map<string, { connection: Connection; limits: Promise<Limits>; users: number }>()

/** The address of a server, with a slash at its end. `null` if it is not a valid HTTP address. */
export function addressOf(text: string): string | null {
  const url = URL.parse(text, document.baseURI)
  return url !== null && /^https?:$/.test(url.protocol) ? new URL('/', url).href : null
}

export function useServer(address: string): Server {
  const shared = servers.get(address) ?? {
    connection: connect(`${address.replace(/^http/, 'ws')}socket`),
    limits: fetchLimits(fetch, { url: `${address}limits` }),
    users: 0,
  }
  servers.set(address, shared)
  shared.users += 1
  let isReleased = false
  return {
    address,
    connection: shared.connection,
    limits: shared.limits,
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
