// A leak detector: listens on loopback, where no page should connect, and records every contact.

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:http'

import { waitUntil } from '../lib/deadlines.mjs'
import { closeServer, listen } from '../lib/listen.mjs'

const CALLED_MS = 15_000

/** Records HTTP requests, bare TCP connections and UDP datagrams until the test ends. */
export async function startLeakDetector(t) {
  const requests = []
  let connections = 0
  const datagrams = []
  const record = (request) => requests.push(`${request.method} ${request.url}`)
  const http = createServer((request, response) => {
    record(request)
    request.resume()
    response.writeHead(200, {
      'access-control-allow-origin': '*',
      'access-control-allow-headers': '*',
      'content-type': contentType(request.url),
    })
    response.end(bodyFor(request.url))
  })
  http.on('upgrade', (request, socket) => {
    record(request)
    socket.destroy()
  })
  http.on('connection', () => {
    connections += 1
  })
  const udp = createSocket('udp4')
  udp.on('message', (message) => datagrams.push(isStun(message) ? 'stun' : 'quic'))
  udp.bind(0, '127.0.0.1')
  const [httpPort] = await Promise.all([listen(http), once(udp, 'listening')])

  t.after(() => {
    udp.close()
    return closeServer(http)
  })

  return {
    requests,
    datagrams,
    get connections() {
      return connections
    },
    httpPort,
    udpPort: udp.address().port,
    url: `http://127.0.0.1:${httpPort}`,
    /** Resolves when a request for that path, with or without a query, has arrived. */
    called(path) {
      const isIt = (request) => request.split(/[ ?]/)[1] === path
      return waitUntil(() => requests.some(isIt), `a request for ${path} reaches the leak detector`, CALLED_MS)
    },
  }
}

function contentType(url) {
  if (url.includes('css')) return 'text/css'
  if (url.includes('script') || url.includes('worker')) return 'text/javascript'
  if (url.includes('events')) return 'text/event-stream'
  return 'text/html'
}

function bodyFor(url) {
  return url.includes('events') ? 'data: hello\n\n' : ''
}

/** RFC 8489, 5: two zero bits, and the magic cookie in the second word. */
function isStun(message) {
  return message.length >= 20 && (message[0] & 0xc0) === 0 && message.readUInt32BE(4) === 0x2112a442
}
