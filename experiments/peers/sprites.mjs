// The comparison server: the sprites protocol over plain HTTP (docs/reference/protocols/sprites.md), on
// Node's own `http` without a framework.
//
// It is written for speed. One Map leads from token to peer. Neighbours are in linked rings, so a join
// touches four others. An answer is one string with its length. The timers of the HTTP server, which scan
// all connections, are off. A parked poll is only its response object. A slot is removed when no poll
// waits for a while; there are no reservations, so its token is then stale.

import { createServer } from 'node:http'
import { randomBytes } from 'node:crypto'
import { host, port, ready } from './ready.mjs'

const POLL_MS_MAX = 120_000
const AWAY_MS_MAX = 30_000
const ARRIVALS_QUEUED_MAX = 64
const BODY_BYTES_MAX = 8192
const EDGES = { __proto__: null, left: 'right', right: 'left', up: 'down', down: 'up' }
const NO_NEIGHBOURS = { left: null, right: null, up: null, down: null }

const grids = new Map()
/** The peer of each connection. */
const peerOf = new WeakMap()
const peers = new Map() // by token

class Peer {
  constructor(grid) {
    this.grid = grid
    this.id = randomBytes(8).toString('hex')
    this.token = randomBytes(16).toString('base64url')
    this.left = this.right = this.up = this.down = this
    this.index = grid.length // position in the grid's list
    this.arrivals = [] // JSON texts, until the next poll
    this.changed = false
    this.poll = null // the waiting response
    this.since = 0 // when the poll began to wait, or ended
  }

  neighbours() {
    if (this.right === this) return NO_NEIGHBOURS
    return { left: this.left.id, right: this.right.id, up: this.up.id, down: this.down.id }
  }
}

function splice(peer, at, before, after) {
  const next = at[after]
  peer[before] = at
  peer[after] = next
  at[after] = peer
  next[before] = peer
}

function unlink(peer, before, after) {
  peer[before][after] = peer[after]
  peer[after][before] = peer[before]
}

function join(grid) {
  const peer = new Peer(grid)
  if (grid.length > 0) {
    splice(peer, grid[(Math.random() * grid.length) | 0], 'left', 'right')
    splice(peer, grid[(Math.random() * grid.length) | 0], 'up', 'down')
  }
  grid.push(peer)
  peers.set(peer.token, peer)
  notifyNeighbours(peer)
  return peer
}

function leave(peer) {
  if (!peers.delete(peer.token)) return
  const neighbours = [peer.left, peer.right, peer.up, peer.down]
  unlink(peer, 'left', 'right')
  unlink(peer, 'up', 'down')
  const last = peer.grid.pop()
  if (last !== peer) {
    peer.grid[peer.index] = last
    last.index = peer.index
  }
  for (const other of neighbours) if (other !== peer) notify(other)
  if (peer.poll) answerPoll(peer)
}

function notifyNeighbours(peer) {
  for (const other of [peer.left, peer.right, peer.up, peer.down]) if (other !== peer) notify(other)
}

function notify(peer) {
  peer.changed = true
  if (peer.poll) answerPoll(peer)
}

function answerPoll(peer) {
  const response = peer.poll
  peer.poll = null
  peer.since = Date.now()
  peer.changed = false
  const arrivals = peer.arrivals.join(',')
  peer.arrivals.length = 0
  send(response, 200, `{"arrivals":[${arrivals}],"neighbours":${JSON.stringify(peer.neighbours())}}`)
}

function send(response, status, body) {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  response.end(body)
}

const refuse = (response, status, reason) => send(response, status, JSON.stringify({ reason }))

function poll(peer, response) {
  if (peer.poll) refuse(peer.poll, 409, 'a newer poll waits')
  peer.poll = response
  peer.since = Date.now()
  if (peer.changed || peer.arrivals.length > 0) return answerPoll(peer)
  peerOf.set(response.socket, peer)
}

function onThrow(body, response) {
  const peer = peers.get(body.token)
  if (!peer) return refuse(response, 410, 'stale token')
  const { sprite, edge, at, velocity } = body
  const edgeThere = EDGES[edge]
  if (
    typeof sprite !== 'string' ||
    sprite.length < 1 ||
    sprite.length > 64 ||
    !edgeThere ||
    !(at >= 0 && at <= 1) ||
    !Number.isFinite(velocity?.x) ||
    !Number.isFinite(velocity?.y)
  ) {
    return refuse(response, 400, 'bad throw')
  }
  const neighbour = peer[edge]
  if (neighbour === peer || neighbour.arrivals.length >= ARRIVALS_QUEUED_MAX) {
    return send(response, 200, '{"wrapped":true}')
  }
  neighbour.arrivals.push(JSON.stringify({ sprite, edge: edgeThere, at, velocity, from: peer.id }))
  if (neighbour.poll) answerPoll(neighbour)
  send(response, 200, '{}')
}

function onJoin(name, body, response) {
  const grid = grids.get(name) ?? []
  grids.set(name, grid)
  const peer = peers.get(body.token) ?? join(grid)
  peer.since = Date.now()
  const { token, id } = peer
  send(response, 200, JSON.stringify({ token, peer: id, neighbours: peer.neighbours() }))
}

function onLeave(body, response) {
  const peer = peers.get(body.token)
  if (!peer) return refuse(response, 410, 'stale token')
  leave(peer)
  send(response, 200, '{}')
}

// As long as Watchfire's response, which describes each of its limits.
const LIMITS = JSON.stringify({
  limits: { arrivals_queued_max: { unit: 'sprites', value: ARRIVALS_QUEUED_MAX } },
  padding: 'w'.repeat(2650),
})

const ROUTE = /^\/sprites\/([A-Za-z0-9._~-]{1,64})\/(join|throw|leave)$/
const POLL = /^\/sprites\/[A-Za-z0-9._~-]{1,64}\/poll\?token=([A-Za-z0-9_-]+)$/

const server = createServer({ keepAlive: true, noDelay: true }, (request, response) => {
  if (request.method === 'GET') {
    if (request.url === '/limits') return send(response, 200, LIMITS)
    const peer = peers.get(POLL.exec(request.url)?.[1])
    return peer ? poll(peer, response) : refuse(response, 410, 'stale token')
  }
  const route = ROUTE.exec(request.url)
  if (request.method !== 'POST' || !route) return refuse(response, 404, 'not found')
  let text = ''
  request.setEncoding('utf8')
  request.on('data', (part) => {
    text += part
    if (text.length > BODY_BYTES_MAX) request.destroy()
  })
  request.on('end', () => {
    let body
    try {
      body = text === '' ? {} : (JSON.parse(text) ?? {})
    } catch {
      return refuse(response, 400, `bad ${route[2]}`)
    }
    if (route[2] === 'throw') onThrow(body, response)
    else if (route[2] === 'join') onJoin(route[1], body, response)
    else onLeave(body, response)
  })
})

// The parked poll of a closed connection ends.
server.on('connection', (socket) => {
  socket.on('close', () => {
    const peer = peerOf.get(socket)
    if (peer?.poll && (peer.poll.socket ?? socket) === socket) peer.poll = null
    if (peer) peer.since = Date.now()
  })
})

// Its timers scan every connection twice a minute, and would end a parked poll.
server.requestTimeout = 0
server.headersTimeout = 0
server.keepAliveTimeout = 0
server.timeout = 0

// Answer polls that have waited long enough, and remove peers that did not poll again.
setInterval(() => {
  const now = Date.now()
  for (const peer of peers.values()) {
    if (peer.poll && now - peer.since > POLL_MS_MAX) answerPoll(peer)
    else if (!peer.poll && now - peer.since > AWAY_MS_MAX) leave(peer)
  }
}, 5_000)

server.listen({ host, port, backlog: 4096 }, ready)
