// Plain WebSockets that speak just enough of V2 to join a room, for tests that need many of them or control their reading.

import { WebSocket } from 'ws'

import { withTimeout } from './deadlines.mjs'

/** Opens a socket. Any certificate is accepted, for `wss`. */
export async function openSocket(server, scheme = 'ws') {
  const url = `${scheme}://localhost:${server.port}/socket/websocket?vsn=2.0.0`
  const socket = new WebSocket(url, { rejectUnauthorized: false, perMessageDeflate: false, family: 4 })
  const opened = new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  await withTimeout(opened, 'a socket opens')
  return socket.on('error', () => {})
}

/** Opens a socket, and joins a room. */
export async function join(server, room, scheme) {
  const socket = await openSocket(server, scheme)
  const joined = new Promise((resolve, reject) => {
    socket.once('message', resolve)
    socket.once('close', () => reject(new Error('the socket was closed')))
  })
  socket.send(JSON.stringify(['1', '1', room, 'phx_join', {}]))
  await withTimeout(joined, 'the join is answered')
  return socket
}
