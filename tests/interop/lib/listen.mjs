// Servers of a test on free ports of loopback.

import { once } from 'node:events'
import net from 'node:net'

/** Listens on a free port, and returns it. */
export async function listen(server, host = '127.0.0.1') {
  server.listen(0, host)
  await once(server, 'listening')
  return portOf(server)
}

/** The port of a server that listens. */
export const portOf = (server) => server.address().port

/** Cuts all connections of an HTTP server, and ends it. */
export async function closeServer(server) {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}

/** Whether a program accepts connections at a port of loopback. */
export function accepts(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
