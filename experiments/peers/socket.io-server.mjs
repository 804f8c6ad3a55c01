// A server of npm's `socket.io`, as its documentation recommends: rooms, and websockets only.

import { createServer } from 'node:http'
import { Server } from 'socket.io'
import { host, port, ready } from './ready.mjs'

/** Starts a server whose users join rooms, and send `event` to all of a room. */
export function startServer(event, options = {}) {
  const http = createServer()
  const io = new Server(http, {
    transports: ['websocket'],
    perMessageDeflate: false,
    serveClient: false,
    // The default is 25 s. No ping falls into a measurement this way.
    pingInterval: 600_000,
    ...options,
  })

  // Saves memory, as its documentation recommends: the upgrade request is not needed any more.
  io.engine.on('connection', (engineSocket) => {
    engineSocket.request = null
  })

  io.on('connection', (socket) => {
    socket.on('join', async (room, acknowledge) => {
      await socket.join(room)
      acknowledge()
    })
    socket.on(event, (room, payload) => io.to(room).emit(event, payload))
  })

  http.listen({ host, port, backlog: 4096 }, ready)
}
