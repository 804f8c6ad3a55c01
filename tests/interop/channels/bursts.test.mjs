// Bursts: much more than a queue holds, for readers that read as fast as they can.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import net from 'node:net'
import { after, before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers'
import tls from 'node:tls'

import { certify } from '../lib/certificate.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { API_KEY, callApi } from '../lib/http-api.mjs'
import { listen } from '../lib/listen.mjs'
import { LongPollSession } from '../lib/long-poll.mjs'
import { RawWebSocket } from '../lib/raw-socket.mjs'
import { processesOfAll, startWatchfire } from '../lib/server.mjs'
import { collectEvents, connect, freshTopic, newestWay } from '../lib/test-client.mjs'

const MIB = 2 ** 20
const SETTINGS = {
  'channels.rules': '[{ pattern = "bursts:*", join = "anyone", publish = "clients" }]',
  'api.key': API_KEY,
  'socket.check_origin': 'any',
}
/** Bytes a second of a link to the server; `undefined` for loopback itself. */
const SPEEDS = { 'a slow link': 2e6, '10 MB/s': 10e6, loopback: undefined }
const COUNT = 40
const TEXT = 'x'.repeat(100_000)
const allNumbers = Array.from({ length: COUNT }, (_, n) => n)
const byNumber = (a, b) => a - b

/** Passes connections on to a port, and the bytes of the server at a rate. Returns the port. */
async function openLink(t, port, bytesPerSecond) {
  if (bytesPerSecond === undefined) return port
  const link = net.createServer((client) => {
    const dialled = net.connect({ port, host: '127.0.0.1' })
    client.pipe(dialled)
    dialled.on('data', (chunk) => {
      client.write(chunk)
      dialled.pause()
      setTimeout(() => dialled.resume(), (chunk.length / bytesPerSecond) * 1_000)
    })
    for (const [socket, other] of [
      [client, dialled],
      [dialled, client],
    ]) {
      socket.on('error', () => {}).on('close', () => other.destroy())
    }
    t.after(() => client.destroy())
  })
  t.after(() => link.close())
  return listen(link)
}

/** Reads a topic over a WebSocket. Returns the numbers of the messages that have arrived. */
async function readSocket(t, topic, server) {
  const socket = await RawWebSocket.open(t, server)
  await socket.join(topic)
  const numbers = () =>
    socket.messages.all
      .map((text) => JSON.parse(text))
      .filter(([, , , event]) => event === 'note')
      .map(([, , , , { n }]) => n)
  return { numbers, socket }
}

/** The same over long poll. */
async function readPolls(t, topic, port) {
  const session = await LongPollSession.open({ http: (path) => `http://127.0.0.1:${port}${path}` })
  await session.post(['1', '1', topic, 'phx_join', {}])
  await session.receive(1)
  const received = []
  let isOver = false
  t.after(() => (isOver = true))
  const poll = async () => {
    while (!isOver) received.push(...(await session.receive(1)).map(([, , , , { n }]) => n))
  }
  poll().catch((error) => received.push(error.message))
  return { numbers: () => received }
}

describe('a burst of 40 messages of 100 kB', () => {
  let plain, secured, trust
  before(async () => {
    const folder = newFolder()
    const pair = certify(folder, ['localhost'])
    trust = readFileSync(pair.cert)
    plain = await startWatchfire({ settings: SETTINGS })
    secured = await startWatchfire({ settings: { ...SETTINGS, 'tls.cert': pair.cert, 'tls.key': pair.key } })
  })
  after(() => Promise.all([plain.stop(), secured.stop()]))

  /** A call of the API over TLS. Returns its status. */
  const callSecured = (method, body) =>
    new Promise((resolve, reject) => {
      const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${API_KEY}` }
      const options = {
        port: secured.port,
        host: '127.0.0.1',
        servername: 'localhost',
        path: `/api/${method}`,
        ca: trust,
        method: 'POST',
        headers,
        agent: false,
      }
      const sent = request(options, (response) => resolve(response.resume().statusCode))
      sent.on('error', reject).end(JSON.stringify(body))
    })

  const TRANSPORTS = {
    WebSocket: (t, topic, port) => readSocket(t, topic, { host: '127.0.0.1', dial: () => net.connect({ port, host: '127.0.0.1' }) }),
    'WebSocket over TLS': (t, topic, port) => {
      const dial = () => tls.connect({ port, host: '127.0.0.1', servername: 'localhost', ca: trust })
      return readSocket(t, topic, { host: `localhost:${port}`, dial })
    },
    'long poll': readPolls,
  }

  it('reaches whole each reader, beside one that has stopped, within a bounded memory', async (t) => {
    const topic = freshTopic('bursts')
    const readers = []
    for (const [transport, open] of Object.entries(TRANSPORTS)) {
      for (const [speed, bytesPerSecond] of Object.entries(SPEEDS)) {
        const server = transport === 'WebSocket over TLS' ? secured : plain
        const reader = await open(t, topic, await openLink(t, server.port, bytesPerSecond))
        readers.push({ ...reader, name: `${transport}, ${speed}` })
      }
    }
    const { socket: stuck } = await readSocket(t, topic, plain)
    stuck.pause()
    const before = plain.residentBytes()

    const calls = allNumbers.flatMap((n) => {
      const body = { topic, event: 'note', payload: { n, text: TEXT } }
      return [callApi(plain, 'publish', body).then(({ status }) => status), callSecured('publish', body)]
    })
    assert.deepEqual(new Set(await Promise.all(calls)), new Set([200]))
    const after = plain.residentBytes()
    const missing = () =>
      readers.filter(({ numbers }) => numbers().length < COUNT).map(({ name, numbers }) => `${name}: ${numbers().length}`)
    await waitUntil(
      () => missing().length === 0,
      () => `all messages arrive; ${missing().join(', ')}`,
    )
    for (const { numbers, name } of readers) assert.deepEqual(numbers().toSorted(byNumber), allNumbers, name)
    assert.ok(after - before < 48 * MIB, `${(after - before) / MIB} MiB more`)
    assert.ok((await plain.metric('watchfire_hub_publishers_waited_total')) > 0, 'no publisher has waited')
    stuck.resume()
  })

  it('is flushed by a client that connects again, and reaches it and the others', async (t) => {
    const topic = freshTopic('bursts')
    const reader = collectEvents(await connect(t, plain, newestWay).join(topic), 'note')
    const sender = connect(t, plain, newestWay)
    const channel = await sender.join(topic)
    const echoes = collectEvents(channel, 'note')
    sender.socket.disconnect()
    // The library keeps pushes of a channel until its socket is open and the channel joined again.
    for (const n of allNumbers) channel.push('note', { n, text: TEXT.slice(0, 60_000) }, 60_000)
    sender.socket.connect()
    const numbers = (inbox) => inbox.all.map(({ n }) => n)
    await waitUntil(
      () => numbers(reader).length >= COUNT && numbers(echoes).length >= COUNT,
      () => `${numbers(reader).length} and ${numbers(echoes).length} arrive`,
    )
    assert.deepEqual(numbers(reader), allNumbers)
    assert.deepEqual(numbers(echoes), allNumbers)
  })

  it('that waits for a reader together with many calls is refused in part, and then not published', async (t) => {
    const topic = freshTopic('bursts')
    const { socket: stuck } = await readSocket(t, topic, plain)
    stuck.pause()
    const { numbers } = await readSocket(t, topic, plain)
    const waited = () => plain.metric('watchfire_hub_publishers_waited_total')
    const before = await waited()
    const publish = (n, text) => callApi(plain, 'publish', { topic, event: 'note', payload: { n, text } })
    const first = allNumbers.map((n) => publish(n, TEXT))
    await waitUntil(async () => (await waited()) > before, 'a call waits')
    const later = await Promise.all(Array.from({ length: 200 * processesOfAll }, (_, n) => publish(COUNT + n, '')))
    const answers = [...(await Promise.all(first)), ...later]
    const refused = answers.filter(({ status }) => status === 503)
    assert.ok(refused.length > 0, 'no call was refused')
    for (const { headers, body } of refused) assert.deepEqual([headers['retry-after'], body.error.code], ['1', 'unavailable'])
    const published = answers.flatMap(({ status }, n) => (status === 200 ? [n] : []))
    await waitUntil(() => numbers().length >= published.length, 'the others arrive')
    assert.deepEqual(numbers().toSorted(byNumber), published)
  })
})
