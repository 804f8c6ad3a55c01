// Servers of a test on free ports of loopback.

import { once } from 'node:events'

/** Listens on a free port, and returns it. */
export async function listen(server, host = '127.0.0.1') {
  server.listen(0, host)
  await once(server, 'listening')
  return portOf(server)
}

/** The port of a server that listens. */
export const portOf = (server) => server.address().port
