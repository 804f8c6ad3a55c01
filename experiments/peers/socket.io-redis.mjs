// One machine of a Socket.IO cluster: rooms as in its documentation, and the sharded Redis adapter.
//
//   node socket.io-redis.mjs <url of Redis>

import { createServer } from 'node:http'
import { createShardedAdapter } from '@socket.io/redis-adapter'
import { createClient } from 'redis'
import { Server } from 'socket.io'
import { host, port, ready } from './ready.mjs'

const [url] = process.argv.slice(2)

const publisher = createClient({ url })
const subscriber = publisher.duplicate()
await Promise.all([publisher.connect(), subscriber.connect()])

const http = createServer()
const io = new Server(http, {
  transports: ['websocket'],
  perMessageDeflate: false,
  serveClient: false,
  // The default is 25 s. No ping falls into a measurement this way.
  pingInterval: 600_000,
  // With a channel for each room, a machine receives only messages of rooms with members on it.
  adapter: createShardedAdapter(publisher, subscriber, { subscriptionMode: 'dynamic' }),
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
  socket.on('note', (room, payload) => io.to(room).emit('note', payload))
})

http.listen({ host, port, backlog: 4096 }, ready)
