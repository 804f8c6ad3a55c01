import { PageServer } from '@watchfire/pages/server'

const servers = new Map<string, { readonly server: PageServer; users: number }>()

/**
 * The server with this address, shared by all elements of the document that name it, and closed when each has released it. Throws if the
 * address is not valid, and if the browser forbids the connection.
 */
export function useServer(address: string): { readonly server: PageServer; release(): void } {
  const named = new PageServer(address)
  const shared = servers.get(named.address) ?? { server: named, users: 0 }
  const { server } = shared
  void server.connection
  servers.set(server.address, shared)
  shared.users += 1
  return {
    server,
    release() {
      shared.users -= 1
      if (shared.users > 0) return
      servers.delete(server.address)
      server.close()
    },
  }
}
