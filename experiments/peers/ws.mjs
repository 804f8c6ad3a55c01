// npm's `ws` with the part of Phoenix V2 that the loads of the targets need.
//
//   node ws.mjs plain   `send(text)` for each socket, the usual way
//   node ws.mjs once    the frame is built once, and its bytes are written to each socket

import { Sender, WebSocketServer } from 'ws'
import { host, port, ready } from './ready.mjs'

const [mode] = process.argv.slice(2)
if (mode !== 'plain' && mode !== 'once') throw new Error(`invalid mode ${mode}: use plain or once`)

const rooms = new Map()
const topicsOf = new WeakMap()

const server = new WebSocketServer({
  host,
  port,
  path: '/socket/websocket',
  perMessageDeflate: false,
  clientTracking: false,
  backlog: 4096,
})

server.on('listening', ready)

server.on('connection', (socket) => {
  topicsOf.set(socket, [])
  socket.on('message', (data) => onMessage(socket, data))
  socket.on('close', () => {
    for (const topic of topicsOf.get(socket)) rooms.get(topic)?.delete(socket)
  })
  socket.on('error', () => socket.terminate())
})

function onMessage(socket, data) {
  const [joinRef, ref, topic, event, payload] = JSON.parse(data)
  switch (event) {
    case 'phx_join':
      if (!rooms.has(topic)) rooms.set(topic, new Set())
      rooms.get(topic).add(socket)
      topicsOf.get(socket).push(topic)
      return reply(socket, joinRef, ref, topic)
    case 'new_msg':
      return broadcast(topic, JSON.stringify([null, null, topic, event, payload]))
    default:
      return reply(socket, joinRef, ref, topic)
  }
}

function reply(socket, joinRef, ref, topic) {
  const answer = { status: 'ok', response: {} }
  socket.send(JSON.stringify([joinRef, ref, topic, 'phx_reply', answer]))
}

function broadcast(topic, text) {
  const members = rooms.get(topic) ?? []
  if (mode === 'plain') {
    for (const socket of members) socket.send(text)
    return
  }
  const options = { fin: true, rsv1: false, opcode: 1, mask: false, readOnly: true }
  const frame = Buffer.concat(Sender.frame(Buffer.from(text), options))
  for (const socket of members) socket._socket.write(frame)
}
