// Event streams, read by the `EventSource` of Node and by curl.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import { createInterface } from 'node:readline'
import { after, before, describe, it } from 'node:test'

import { SignJWT } from 'jose'

import { API_KEY, api } from '../lib/http-api.mjs'
import { Inbox, waitUntil } from '../lib/deadlines.mjs'
import { freshTopic } from '../lib/test-client.mjs'
import { listen, portOf } from '../lib/listen.mjs'
import { startWatchfire } from '../lib/server.mjs'

const SECRET = 'an HS256 secret of 32 bytes or more'
const RULES = [
  '{ pattern = "news:*", join = "anyone", history = { messages = 1000, age = "2m", bytes = "4MiB" } }',
  '{ pattern = "plain:*", join = "anyone" }',
  '{ pattern = "orders:*" }',
]
const SETTINGS = {
  'socket.check_origin': 'any',
  'channels.rules': `[${RULES.join(', ')}]`,
  'auth.hs256_secret': SECRET,
  'auth.leeway': '0s',
  'api.key': API_KEY,
  'limits.queued_bytes_max': '200000',
}

/**
 * Reads a stream as a page does, and prints each event. A page closes a stream whose channel has ended. The timer lives as a page does:
 * while `EventSource` waits to connect again, it keeps no program of Node running.
 */
const PAGE = `
  const page = setInterval(() => {}, 1_000)
  const source = new EventSource(process.argv[1])
  const print = (event) => console.log(JSON.stringify(event))
  for (const type of ['phx_reply', 'note', 'token_expired', 'phx_close', 'phx_error'])
    source.addEventListener(type, ({ data, lastEventId }) => {
      print({ type, data: JSON.parse(data), id: lastEventId })
      if (type !== 'phx_close') return
      source.close()
      clearInterval(page)
    })
  source.onerror = () => print({ type: 'error', isClosed: source.readyState === EventSource.CLOSED })
`

const publish = (server, topic, n, text = '') => api(server, 'publish', { topic, event: 'note', payload: { n, text } })

/** The lines that a program prints, until the test ends. */
function linesOf(t, program, args, parse) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = new Inbox()
  createInterface({ input: child.stdout }).on('line', (line) => lines.put(parse(line)))
  t.after(() => child.kill('SIGKILL'))
  return { lines, exited: once(child, 'exit') }
}

const openPage = (t, url) => linesOf(t, process.execPath, ['--experimental-eventsource', '--no-warnings', '-e', PAGE, url], JSON.parse)

/** The URL of a stream. */
const streamOf = (server, topic, params = {}) => server.http(`/api/stream?${new URLSearchParams({ topic, ...params })}`)

const token = (seconds) =>
  new SignJWT({ channels: { join: ['orders:*'] } })
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject('ada')
    .setExpirationTime(Math.floor(Date.now() / 1000) + seconds)
    .sign(new TextEncoder().encode(SECRET))

/** A proxy in front of the server whose connections a test can cut. */
async function proxied(t, server) {
  const connections = new Set()
  const proxy = net.createServer((near) => {
    const far = net.connect(server.port, '127.0.0.1')
    near.pipe(far).pipe(near)
    for (const end of [near, far]) end.on('error', () => {})
    connections.add({ near, far })
  })
  await listen(proxy)
  const cut = () => {
    for (const { near, far } of connections) {
      far.destroy()
      near.end()
    }
    connections.clear()
  }
  t.after(() => {
    cut()
    proxy.close()
  })
  return { http: (pathname) => `http://127.0.0.1:${portOf(proxy)}${pathname}`, cut }
}

describe('an event stream', () => {
  let server
  before(async () => (server = await startWatchfire({ settings: SETTINGS })))
  after(() => server.stop())

  it('goes on after cuts without a gap and without a repeat', async (t) => {
    const topic = freshTopic('news')
    const proxy = await proxied(t, server)
    const { lines } = openPage(t, streamOf(proxy, topic))
    const joined = await lines.next(({ type }) => type === 'phx_reply')
    assert.equal(joined.data.response.recovered, false, 'it had no position')
    let n = 0
    for (let cut = 1; cut <= 2; cut++) {
      await publish(server, topic, ++n)
      await lines.next(({ data }) => data?.n === n)
      proxy.cut()
      await publish(server, topic, ++n)
      const again = await lines.next(({ type }) => type === 'phx_reply')
      assert.equal(again.data.response.recovered, true)
    }
    await lines.next(({ data }) => data?.n === n)
    const notes = lines.all.filter(({ type }) => type === 'note')
    assert.deepEqual(
      notes.map(({ data }) => data.n),
      [1, 2, 3, 4],
    )
    const later = openPage(t, streamOf(server, topic, { last_event_id: notes[1].id }))
    assert.equal((await later.lines.next(({ type }) => type === 'note')).data.n, 3, 'a page that has stored a position')
    const lost = openPage(t, streamOf(server, topic, { last_event_id: 'z:9' }))
    assert.equal((await lost.lines.next()).data.response.recovered, false)
  })

  it('is read by curl', async (t) => {
    const topic = freshTopic('news')
    const open = (args) => linesOf(t, 'curl', ['-sN', ...args, streamOf(server, topic)], String)
    const { lines } = open([])
    await lines.next((line) => line.startsWith('id: '))
    await publish(server, topic, 1)
    await publish(server, topic, 2)
    const id = await lines.next((line) => line.startsWith('id: '))
    assert.equal(await lines.next((line) => line.startsWith('data: ')), 'data: {"n":1,"text":""}')
    const second = open(['-H', `Last-Event-ID: ${id.slice('id: '.length)}`])
    await second.lines.next((line) => line.includes('"recovered":true'))
    assert.equal(await second.lines.next((line) => line.startsWith('data: ')), 'data: {"n":2,"text":""}')
  })

  it('is refused to a wrong token, and a page does not try again', async (t) => {
    const topic = freshTopic('orders')
    const refused = async (params, status, reason) => {
      const answer = await fetch(streamOf(server, topic, params), { headers: { Origin: 'https://elsewhere.example' } })
      assert.deepEqual([answer.status, await answer.json()], [status, { reason }])
      assert.equal(answer.headers.get('access-control-allow-origin'), '*')
    }
    await refused({}, 403, 'unauthorized')
    await refused({ token: 'wrong' }, 403, 'connect_application')
    await refused({ topic: 'nowhere' }, 404, 'unmatched topic')
    const { lines } = openPage(t, streamOf(server, topic, { token: 'wrong' }))
    assert.deepEqual(await lines.next(), { type: 'error', isClosed: true })
  })

  it('ends with its channel, and says why', async (t) => {
    const { lines, exited } = openPage(t, streamOf(server, freshTopic('orders'), { token: await token(3) }))
    const { data } = await lines.next(({ type }) => type === 'token_expired')
    assert.deepEqual(data, { reason: 'token_expired' })
    await lines.next(({ type }) => type === 'phx_close')
    await exited
  })

  it('is closed when nobody reads it, and harms nobody', async (t) => {
    const topic = freshTopic('plain')
    const stuck = net.connect(server.port, '127.0.0.1')
    t.after(() => stuck.destroy())
    stuck.pause().write(`GET /api/stream?topic=${topic} HTTP/1.1\r\nhost: localhost\r\n\r\n`)
    const { lines } = openPage(t, streamOf(server, topic))
    await lines.next(({ type }) => type === 'phx_reply')
    await waitUntil(async () => (await server.metric('watchfire_channels_clients', 'events')) === 2, 'both have joined')
    const closed = () => server.metric('watchfire_sockets_closes_total', 'reason="slow"')
    const before = await closed()
    let n = 0
    await waitUntil(async () => {
      for (let more = 0; more < 20; more++) await publish(server, topic, ++n, 'x'.repeat(50_000))
      return (await closed()) > before
    }, 'the stuck reader is closed')
    await lines.next(({ data }) => data?.n === n)
    const notes = lines.all.filter(({ type }) => type === 'note')
    assert.deepEqual(
      notes.map(({ data }) => data.n),
      Array.from({ length: n }, (_, index) => index + 1),
    )
    assert.equal(lines.all.filter(({ type }) => type === 'error').length, 0)
  })
})
