// Long poll, request by request.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, collectEvents, reply, variantsWhere } from '../lib/test-client.mjs'
import { LongPollSession } from '../lib/long-poll.mjs'
import { ROOMS, startChat, startWatchfire } from '../lib/server.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { openTcp, readResponse } from '../lib/raw-socket.mjs'

const OK = { status: 'ok', response: {} }
const heartbeat = (ref) => [null, ref, 'phoenix', 'heartbeat', {}]
const heartbeatReply = (ref) => [null, ref, 'phoenix', 'phx_reply', OK]

describe('a long-poll session', () => {
  let server
  before(async () => (server = await startChat()))
  after(() => server.stop())

  it('opens with a GET without a token', async () => {
    const response = await fetch(server.http('/socket/longpoll?vsn=2.0.0'))
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
    assert.equal(response.headers.get('access-control-allow-origin'), '*')
    assert.equal(response.headers.get('cache-control'), 'no-store')
    const { token, ...rest } = await response.json()
    assert.deepEqual(rest, { status: 410, messages: [] })
    assert.match(token, /^[\w.~-]+$/, 'safe in a URL')
  })

  it('opens again with a GET whose token is unknown', async () => {
    const { token: real } = await new LongPollSession(server).get()
    const forged = ['x', '', 'null', 'undefined', real.slice(1), `${real}x`, `${real.slice(0, -2)}zz`, 'ü'.repeat(300)]
    for (const token of forged) {
      const opened = await new LongPollSession(server).get({ token })
      assert.equal(opened.status, 410)
      assert.notEqual(opened.token, token)
    }
  })

  it('sends messages by POST and receives them by GET, oldest first', async () => {
    const topic = freshTopic()
    const session = await LongPollSession.open(server)
    assert.deepEqual(await session.post(['1', '1', topic, 'phx_join', {}]), { status: 200 })
    assert.deepEqual(await session.post(['1', '2', topic, 'ping', { n: 1 }], heartbeat('3')), { status: 200 })
    assert.deepEqual(await session.receive(3), [
      ['1', '1', topic, 'phx_reply', OK],
      ['1', '2', topic, 'phx_reply', { status: 'ok', response: { n: 1 } }],
      heartbeatReply('3'),
    ])
  })

  it('replies 410 to a POST without a live session', async () => {
    const session = new LongPollSession(server)
    assert.deepEqual(await session.post(heartbeat('1')), { status: 410 })
    session.token = 'unknown'
    assert.deepEqual(await session.post(heartbeat('1')), { status: 410 })
  })

  it('accepts its token in a header, which takes precedence over the URL', async () => {
    const session = await LongPollSession.open(server)
    await session.post(heartbeat('1'))
    const headers = { 'X-Phoenix-LongPoll-Token': session.token }
    const { status, messages } = await session.get({ token: 'unknown', headers })
    assert.deepEqual([status, messages.length], [200, 1])
    const posted = await fetch(server.http('/socket/longpoll?vsn=2.0.0'), {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/x-ndjson' },
      body: JSON.stringify(heartbeat('2')),
    })
    assert.deepEqual(await posted.json(), { status: 200 })
  })

  it('is the same session on every shard that a connection reaches', async () => {
    // Each of these requests has a connection of its own.
    const headers = { Connection: 'close' }
    const session = await LongPollSession.open(server)
    for (let n = 0; n < 20; n++) {
      const body = JSON.stringify(heartbeat(`${n}`))
      await session.postBody(body, { ...headers, 'Content-Type': 'application/x-ndjson' })
      const { status, messages } = await session.get({ headers })
      assert.deepEqual([status, messages], [200, [JSON.stringify(heartbeatReply(`${n}`))]])
    }
  })

  it('takes a long POST that arrives at once, at whichever process', async (t) => {
    const session = await LongPollSession.open(server)
    const topic = freshTopic()
    await session.post(['1', '1', topic, 'phx_join', {}])
    const body = JSON.stringify(['1', null, topic, 'new_msg', { text: 'x'.repeat(100_000) }])
    const { pathname, search } = new URL(session.url())
    const head = [
      `POST ${pathname}${search} HTTP/1.1`,
      'Host: localhost',
      'Content-Type: application/x-ndjson',
      `Content-Length: ${body.length}`,
    ]
    for (let n = 0; n < 12; n++) {
      const socket = await openTcp(t, server)
      socket.write([...head, '', body].join('\r\n'))
      const { status } = await readResponse(socket)
      assert.equal(status, 200)
    }
  })

  it('answers CORS preflight requests of other origins', async () => {
    const response = await fetch(server.http('/socket/longpoll?vsn=2.0.0'), {
      method: 'OPTIONS',
      headers: {
        Origin: 'https://app.example',
        'Access-Control-Request-Method': 'GET',
        'Access-Control-Request-Headers': 'x-phoenix-longpoll-token,content-type',
      },
    })
    assert.equal(response.status, 200)
    assert.equal(await response.text(), '')
    const { headers } = response
    assert.equal(headers.get('access-control-allow-headers'), 'x-phoenix-longpoll-token,content-type')
    assert.equal(headers.get('access-control-allow-methods').toLowerCase(), 'get, post, options')
    assert.equal(headers.get('access-control-max-age'), '3600')
    assert.equal(headers.get('access-control-allow-origin'), '*')
  })

  for (const variant of variantsWhere(({ isPoll, library }) => isPoll && library.detectsLostSession)) {
    it(`of ${variant.name} reconnects and joins again when the session was lost`, async (t) => {
      const topic = freshTopic()
      const client = connect(t, server, variant)
      const channel = await client.join(topic)
      const messages = collectEvents(channel, 'new_msg')
      const stolen = new LongPollSession(server)
      stolen.token = client.socket.conn.token
      await stolen.postBody('nonsense', { 'Content-Type': 'application/json' })
      const { code, reason } = await client.closed.next()
      assert.deepEqual([code, reason], [3410, 'session_gone'])
      await client.messages.next(({ event }) => event === 'phx_reply')
      await waitUntil(() => channel.state === 'joined' && client.opened.all.length === 2, 'it joined again')
      channel.push('new_msg', { back: true })
      assert.deepEqual(await messages.next(), { back: true })
      assert.equal((await reply(channel.push('ping', {}))).status, 'ok')
    })
  }
})

describe('a long-poll session whose GET may come late', () => {
  let server
  // Only too many messages end a session here, however fast they come: publishers wait for no reader.
  const settings = {
    ...ROOMS,
    'socket.longpoll_window': '1m',
    'socket.crowded_timeout': '0s',
    'limits.messages_per_second_per_socket': '10000',
  }
  before(async () => (server = await startWatchfire({ settings })))
  after(() => server.stop())

  /** @type {[string, { posts: number, inEach: number, length: number, reason: string }][]} */
  const overfull = [
    // In few requests, since a busy machine must send them long before the time of a session without a GET is up.
    ['many', { posts: 11, inEach: 91, length: 10, reason: 'longpoll_frames' }],
    // Each message counts at most a quarter of the limit.
    ['large', { posts: 5, inEach: 1, length: 300_000, reason: 'longpoll_bytes' }],
  ]
  for (const [kind, { posts, inEach, length, reason }] of overfull) {
    it(`ends when too ${kind} messages wait for a GET, and others continue`, async () => {
      const topic = freshTopic()
      const [reader, sleeper] = [await LongPollSession.open(server), await LongPollSession.open(server)]
      for (const session of [reader, sleeper]) await session.post(['1', '1', topic, 'phx_join', {}])
      await reader.receive(1)
      for (let first = 0; first < posts * inEach; first += inEach) {
        const numbers = Array.from({ length: inEach }, (_, n) => first + n)
        await reader.post(...numbers.map((n) => ['1', null, topic, 'new_msg', { n, text: 'x'.repeat(length) }]))
        const received = await reader.receive(inEach)
        assert.deepEqual(
          received.map(([, , , event, payload]) => [event, payload.n]),
          numbers.map((n) => ['new_msg', n]),
        )
      }
      // The reader may have a message before the process or the shard of the sleeper has it.
      const ended = () => server.metric('watchfire_refusals_total', `reason="${reason}"`)
      await waitUntil(async () => (await ended()) === 1, `a session ends because of ${reason}`)
      assert.equal((await sleeper.get()).status, 410)
      assert.deepEqual(await sleeper.post(heartbeat('1')), { status: 410 })
    })
  }
})
