// Clients behind a proxy that blocks WebSockets fall back to long poll by themselves.

import assert from 'node:assert/strict'
import http from 'node:http'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, collectEvents, reply, variantsWhere } from '../lib/test-client.mjs'
import { startChat } from '../lib/server.mjs'
import { Inbox } from '../lib/deadlines.mjs'
import { closeServer, listen } from '../lib/listen.mjs'

/** The ways in which a proxy may treat an upgrade. */
const treatments = {
  refuses: (socket) => socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'),
  'breaks off': (socket) => socket.destroy(),
  'never replies': () => {},
}

describe('the long-poll fallback', () => {
  let server
  before(async () => (server = await startChat()))
  after(() => server.stop())

  for (const variant of variantsWhere(({ library, isPoll, serializer }) => library.fallsBack && !isPoll && serializer === 2)) {
    for (const [name, treat] of Object.entries(treatments)) {
      it(`gets phoenix ${variant.library.version} past a proxy that ${name} at an upgrade`, async (t) => {
        const proxy = await startProxy(t, server, treat)
        const client = connect(t, proxy, variant, { longPollFallbackMs: 200, sessionStorage: memory() })
        const topic = freshTopic()
        const channel = await client.join(topic)
        assert.equal(client.socket.transport, variant.library.LongPoll)
        const messages = collectEvents(channel, 'new_msg')
        const direct = await connect(t, server, variant).join(topic)
        direct.push('new_msg', { n: 1 })
        assert.deepEqual(await messages.next(), { n: 1 })
        assert.deepEqual(await reply(channel.push('ping', { n: 2 })), { status: 'ok', response: { n: 2 } })
      })
    }

    it(`leaves phoenix ${variant.library.version} on its WebSocket where WebSockets work`, async (t) => {
      const client = connect(t, server, variant, { longPollFallbackMs: 2_000, sessionStorage: memory() })
      const pinged = new Inbox()
      await client.join(freshTopic())
      client.socket.ping(pinged.put)
      await pinged.next()
      assert.notEqual(client.socket.transport, variant.library.LongPoll)
    })
  }
})

/** An HTTP proxy in front of the server that blocks upgrades in the chosen way. */
async function startProxy(t, server, treat) {
  const proxy = http.createServer((request, response) => {
    const { method, url, headers } = request
    const upstream = http.request({ port: server.port, host: '127.0.0.1', method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      answer.pipe(response)
    })
    response.on('close', () => upstream.destroy())
    upstream.on('error', () => response.destroy())
    request.pipe(upstream)
  })
  proxy.on('upgrade', (_, socket) => treat(socket.on('error', () => {})))
  const port = await listen(proxy)
  // A silent upgrade stays open until its client ends it.
  t.after(() => void closeServer(proxy))
  return { endpoint: `ws://127.0.0.1:${port}/socket` }
}

/** A sessionStorage for one client. */
function memory() {
  const items = new Map()
  return { getItem: (key) => items.get(key) ?? null, setItem: (key, value) => items.set(key, value) }
}
