// npm's `socket.io`: a room as in its documentation, websockets only.

import { createServer } from 'node:http'
import { Server } from 'socket.io'
import { host, port, ready } from './ready.mjs'

const http = createServer()
const io = new Server(http, {
  transports: ['websocket'],
  perMessageDeflate: false,
  serveClient: false,
  // The default is 25 s. No ping falls into a measurement this way.
  pingInterval: 600_000,
})

// Saves memory, as its documentation recommends: the upgrade request is not needed any more.
io.engine.on('connection', (engineSocket) => {
  engineSocket.request = null
})

io.on('connection', (socket) => {
  socket.on('join', (room, acknowledge) => {
    socket.join(room)
    acknowledge()
  })
  socket.on('new_msg', (room, payload) => io.to(room).emit('new_msg', payload))
})

http.listen({ host, port, backlog: 4096 }, ready)
