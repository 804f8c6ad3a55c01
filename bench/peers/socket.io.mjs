// The comparison server: npm `socket.io`, a room as its documentation shows it, websockets alone.
//
//   node socket.io.mjs <port>

import { createServer } from 'node:http'
import { Server } from 'socket.io'

const [port] = process.argv.slice(2)

const http = createServer()
const io = new Server(http, {
  transports: ['websocket'],
  perMessageDeflate: false,
  serveClient: false,
  // It would ping every 25 s: off the measured path, so that no figure contains it.
  pingInterval: 600_000,
})

// Its advice against memory: the request of the upgrade is not needed any more.
io.engine.on('connection', (engineSocket) => {
  engineSocket.request = null
})

io.on('connection', (socket) => {
  socket.on('join', (room, joined) => {
    socket.join(room)
    joined()
  })
  socket.on('new_msg', (room, payload) => io.to(room).emit('new_msg', payload))
})

http.listen({ host: '127.0.0.1', port: Number(port), backlog: 4096 })
