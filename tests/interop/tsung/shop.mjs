// A server that notes what each user asks for, and answers so that a session must use all that it reads.

import { createHash } from 'node:crypto'
import http from 'node:http'

const NOTED = ['user-agent', 'content-type', 'if-modified-since', 'authorization', 'cookie', 'soapaction', 'x-own', 'x-nothing']
const ITEMS = {
  items: [
    { name: 'apple', count: 1, colour: 'green' },
    { name: 'berry', count: 2, colour: 'red' },
    { name: 'cherry', count: 3, colour: 'black' },
  ],
  object: { inner: 'inside' },
}

/**
 * Starts the server on two ports, as two servers. `visits` has the notes of each connection, in groups: those of the
 * connections with the same `user` in a query, and those without one.
 */
export async function startShop() {
  const visits = new Map()
  const servers = await Promise.all([0, 1].map((index) => listen(index, visits)))
  const ports = servers.map((server) => /** @type {import('node:net').AddressInfo} */ (server.address()).port)
  const stop = () =>
    Promise.all(
      servers.map((server) => {
        server.closeAllConnections()
        return new Promise((resolve) => server.close(resolve))
      }),
    )
  return { ports, visits, stop }
}

async function listen(index, visits) {
  const server = http.createServer((request, response) => {
    const chunks = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const visit = visitOf(request, visits)
      visit.notes.push(note(index, request, Buffer.concat(chunks).toString()))
      answer(visit, request, response)
    })
  })
  server.on('upgrade', (request, socket) => upgrade(request, socket, visitOf(request, visits), index))
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(null)))
  return server
}

/** The visit of each connection. */
const visitOfSocket = new WeakMap()

/** The visit of a connection: a user names itself in its first request. */
function visitOf(request, visits) {
  const { socket } = request
  const user = new URL(request.url, 'http://shop').searchParams.get('user')
  if (!visitOfSocket.has(socket)) {
    const visit = (user && visits.get(user)) || { notes: [], asked: new Map() }
    visits.set(user ?? `nobody ${visits.size}`, visit)
    visitOfSocket.set(socket, visit)
  }
  return visitOfSocket.get(socket)
}

function note(index, request, body) {
  const headers = NOTED.filter((name) => name in request.headers).map((name) => `${name}: ${request.headers[name]}`)
  return [`${index} ${request.method} ${request.url}`, ...headers, body].join(' | ')
}

function answer(visit, request, response) {
  const url = new URL(request.url, 'http://shop')
  const times = (visit.asked.get(url.pathname) ?? 0) + 1
  visit.asked.set(url.pathname, times)
  const send = (body, headers = {}, status = 200) => {
    response.writeHead(status, { 'content-type': 'text/plain', 'content-length': Buffer.byteLength(body), ...headers })
    response.end(request.method === 'HEAD' ? undefined : body)
  }
  switch (url.pathname) {
    case '/login': {
      const name = url.searchParams.get('name')
      const links = '<p><a href="/link/1">one</a><a href="/other">two</a><a href="/link/3">three</a></p>'
      const form = `<html><title>a &lt; b</title>${links}<form><input type="hidden" name="token" class="x" value="t-${name}"/></form></html>`
      return send(form, { 'content-type': 'text/html', 'set-cookie': `sid=s-${name}; path=/` })
    }
    case '/items':
      return send(JSON.stringify(ITEMS), { 'content-type': 'application/json' })
    case '/state':
      return send(times % 3 === 0 ? 'state=ready' : 'state=busy')
    case '/retry':
      return send(times < 3 ? 'Retry' : 'Done')
    case '/hello':
      return send(`hello ${url.search.slice(1)}`)
    case '/digest':
      return request.headers.authorization
        ? send('welcome')
        : send('who?', { 'www-authenticate': 'Digest realm="the shop", nonce="n-1"' }, 401)
    case '/begin':
      return send(times === 1 ? 'again' : 'enough')
    default:
      return send('ok')
  }
}

/** A websocket that notes what it hears and says it back. */
function upgrade(request, socket, visit, index) {
  visit.notes.push(`${index} UPGRADE ${request.url}`)
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`)
  let unread = Buffer.alloc(0)
  socket.on('error', () => {})
  socket.on('data', (data) => {
    unread = Buffer.concat([unread, data])
    while (unread.length >= 6 && unread.length >= 6 + (unread[1] & 0x7f)) {
      const length = unread[1] & 0x7f
      const mask = unread.subarray(2, 6)
      const text = Buffer.from(unread.subarray(6, 6 + length).map((byte, at) => byte ^ mask[at % 4]))
      const opcode = unread[0] & 0x0f
      unread = unread.subarray(6 + length)
      if (opcode !== 1) return socket.end()
      visit.notes.push(`HEARD ${text}`)
      const reply = Buffer.from(`echo ${text}`)
      if (text.toString().startsWith('say')) socket.write(Buffer.concat([Buffer.from([0x81, reply.length]), reply]))
    }
  })
}
