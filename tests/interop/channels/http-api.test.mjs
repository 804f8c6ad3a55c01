// The HTTP API of a server of several processes, and stock clients that receive what it publishes.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, describe, it } from 'node:test'

import { collectEvents, collectHook, connect, freshTopic, reply, variantsWhere } from '../lib/test-client.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { ROOMS, binary, isStopped, startChat, startWatchfire } from '../lib/server.mjs'
import { waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { RawWebSocket } from '../lib/raw-socket.mjs'
import { API_KEY, api, callApi } from '../lib/http-api.mjs'

const PROCESSES = 3
/** Clients of one kind: enough that every process has some. */
const CROWD = 8

const websocket = variantsWhere((variant) => variant.library === newest && !variant.isPoll && variant.serializer === 2)[0]
const v1 = variantsWhere((variant) => variant.library === newest && !variant.isPoll && variant.serializer === 1)[0]
const longPoll = variantsWhere((variant) => variant.library === newest && variant.isPoll)[0]

let server
before(async () => (server = await startChat({ processes: PROCESSES, apiKey: API_KEY })))
after(() => server.stop())

/** Clients on a topic, and what they receive of an event. */
async function crowd(t, variant, topic, event, count = CROWD) {
  const members = []
  for (let n = 0; n < count; n++) {
    const client = connect(t, server, variant)
    const channel = client.socket.channel(topic, {})
    const inbox = collectEvents(channel, event)
    assert.equal((await reply(channel.join())).status, 'ok')
    members.push({ client, channel, inbox })
  }
  return members
}

const byNumber = (a, b) => a - b

describe('publish', () => {
  it('reaches each client once, over WebSocket and long poll, from whichever process has the call', async (t) => {
    const topic = freshTopic()
    const members = []
    for (const variant of [websocket, v1, longPoll]) members.push(...(await crowd(t, variant, topic, 'note')))
    const numbers = Array.from({ length: 12 }, (_, n) => n)
    for (const n of numbers) assert.deepEqual(await api(server, 'publish', { topic, event: 'note', payload: { n } }), {})
    for (const { inbox } of members) await inbox.take(numbers.length)
    // A message that arrived twice would be there by now.
    await api(server, 'publish', { topic, event: 'note', payload: { n: 12 } })
    for (const { client, inbox } of members) {
      await inbox.next(({ n }) => n === 12, `${client.variant.name} receives the last message`)
      assert.deepEqual(inbox.all.map(({ n }) => n).toSorted(byNumber), [...numbers, 12], client.variant.name)
    }
  })

  it('is done once when the process that decides about a repeat does not answer at first', async (t) => {
    const own = await startChat({ processes: PROCESSES, apiKey: API_KEY })
    t.after(() => own.kill())
    const topic = freshTopic()
    const inboxes = []
    for (let n = 0; n < CROWD; n++) inboxes.push(collectEvents(await connect(t, own, websocket).join(topic), 'note'))
    const names = Array.from({ length: 24 }, (_, n) => `name-${n}`)
    const call = (name) => callApi(own, 'publish', { topic, event: 'note', payload: { name } }, { headers: { 'Idempotency-Key': name } })

    const [stopped] = own.workers()
    process.kill(stopped, 'SIGSTOP')
    const answers = names.map(call)
    // A connection to the stopped process gets no answer yet.
    const refused = await Promise.any(
      answers.map(async (answer) => {
        const { status, headers, body } = await answer
        assert.equal(status, 503)
        return { after: headers['retry-after'], code: body.error.code }
      }),
    )
    assert.deepEqual(refused, { after: '1', code: 'unavailable' })
    process.kill(stopped, 'SIGCONT')
    for (const answer of answers) assert.ok([200, 503].includes((await answer).status))

    for (const name of names) assert.equal((await call(name)).status, 200)
    for (const inbox of inboxes) {
      await inbox.take(names.length)
      assert.deepEqual(inbox.all.map(({ name }) => name).toSorted(), names.toSorted())
    }
    await own.stop()
  })

  it('is done once while the process that decides about a repeat hangs, goes on, hangs again and is killed', async (t) => {
    const own = await startWatchfire({ processes: PROCESSES, settings: { ...ROOMS, 'api.key': API_KEY } })
    t.after(() => own.kill())
    const topic = freshTopic('rooms')
    const members = []
    for (let n = 0; n < CROWD; n++) {
      const client = connect(t, own, websocket)
      members.push({ client, inbox: collectEvents(await client.join(topic), 'note') })
    }
    const names = (phase) => Array.from({ length: 12 }, (_, n) => `${phase}-${n}`)
    const publish = async (name) => {
      const call = { topic, event: 'note', payload: { name } }
      // A connection to a process that is killed gets no answer.
      const { status } = await callApi(own, 'publish', call, { headers: { 'Idempotency-Key': name } }).catch(() => ({ status: 0 }))
      return status
    }
    const publishAll = (all) => Promise.all(all.map((name) => waitUntil(async () => (await publish(name)) === 200, `${name} is published`)))
    const received = ({ inbox }) => inbox.all.map(({ name }) => name).toSorted()

    await publishAll(names('first'))
    const [victim] = own.workers()
    process.kill(victim, 'SIGSTOP')
    await waitUntil(() => own.stderr.includes('does not respond'), 'the supervisor notices that the process hangs')
    const meanwhile = [...names('first'), ...names('second')].map(publish)
    process.kill(victim, 'SIGCONT')
    await Promise.all(meanwhile)
    const both = [...names('first'), ...names('second')]
    await publishAll(both)
    for (const member of members) {
      await member.inbox.take(both.length)
      assert.deepEqual(received(member), both.toSorted(), 'after the process went on')
    }

    process.kill(victim, 'SIGSTOP')
    const all = [...both, ...names('third')]
    while (own.workers().includes(victim)) await Promise.all(all.map(publish))
    await publishAll(all)
    await waitUntil(() => own.workers().length === PROCESSES, 'the process is replaced')
    await publishAll(all)
    await publishAll(['last'])
    for (const member of members) {
      const isLost = member.client.closed.all.length > 0
      if (!isLost) await member.inbox.next(({ name }) => name === 'last')
      const got = received(member)
      assert.equal(new Set(got).size, got.length, `nothing comes twice: ${got}`)
      if (!isLost) assert.deepEqual(got, [...all, 'last'].toSorted())
    }
    await own.stop()
  })
})

describe('presence', () => {
  it('is that of a client, in every process', async (t) => {
    const topic = freshTopic('presence')
    const users = ['ada', 'ada', 'ben', 'eve', 'ü"🔥', ...Array.from({ length: CROWD }, (_, n) => `user ${n}`)]
    const channels = []
    for (const user of users) {
      const channel = connect(t, server, websocket).socket.channel(topic, { user })
      const presence = new newest.Presence(channel)
      assert.equal((await reply(channel.join())).status, 'ok')
      channels.push({ channel, presence })
    }
    channels[2].channel.push('away', {})
    const { presence } = channels[0]
    const keys = new Set(users)
    const metasOf = (state) => Object.values(state).flatMap(({ metas }) => metas)
    const isComplete = () => metasOf(presence.state).length === users.length && presence.state.ben.metas[0].status === 'away'
    await waitUntil(isComplete, 'the client sees everyone')
    const expected = comparable(presence.state)
    for (let n = 0; n < 6; n++) {
      const { presence: state } = await api(server, 'presence', { topic })
      assert.deepEqual(comparable(state), expected)
      const stats = await api(server, 'presence_stats', { topic })
      assert.deepEqual(stats, { keys: keys.size, metas: users.length })
    }
    const empty = freshTopic('presence')
    assert.deepEqual(await api(server, 'presence', { topic: empty }), { presence: {} })
    assert.deepEqual(await api(server, 'presence_stats', { topic: empty }), { keys: 0, metas: 0 })
  })
})

describe('the history of a topic', () => {
  it('is the same in all processes', async () => {
    const topic = freshTopic('news')
    for (let n = 0; n < 20; n++) await api(server, 'publish', { topic, event: 'note', payload: { n } })
    const all = await waitUntil(async () => {
      const answer = await api(server, 'history', { topic })
      return answer.messages.length === 20 && answer
    }, 'all twenty are kept')
    assert.deepEqual(
      all.messages.map(({ payload }) => payload.n).toSorted((a, b) => a - b),
      Array.from({ length: 20 }, (_, n) => n),
    )
    // Each call may reach another process.
    for (let call = 0; call < 10; call++) assert.deepEqual(await api(server, 'history', { topic }), all)
    const after = all.messages[14].position
    const rest = await api(server, 'history', { topic, after })
    assert.deepEqual(rest, { messages: all.messages.slice(15), position: all.position, recovered: true })
  })
})

describe('the list of topics', () => {
  it('has the subscribers of all processes, a page at a time', async (t) => {
    const prefix = `${freshTopic()}-listed-`
    const topics = ['a', 'b', 'c', 'd', 'e'].map((letter) => prefix + letter)
    for (const topic of topics) await crowd(t, websocket, topic, 'note', 4)
    const found = []
    let cursor = null
    do {
      const page = await api(server, 'topics', { prefix, limit: 2, cursor })
      found.push(...page.topics)
      cursor = page.cursor
    } while (cursor !== null)
    assert.deepEqual(
      found,
      topics.map((topic) => ({ topic, subscribers: 4 })),
    )
  })

  it('is counted in info, with the clients and processes', async (t) => {
    await crowd(t, websocket, freshTopic(), 'note')
    const info = await api(server, 'info', {})
    assert.equal(info.processes, PROCESSES)
    assert.ok(info.clients >= CROWD, `${info.clients} clients`)
    await waitUntil(async () => (await api(server, 'info', {})).topics >= 1, 'the topic is counted')
  })
})

/** Clients of one user, each joined to a topic. */
async function tabs(t, user, topic) {
  const opened = []
  for (const variant of [websocket, websocket, websocket, longPoll, longPoll]) {
    const client = connect(t, server, variant, { params: { user } })
    const channel = await client.join(topic)
    opened.push({ client, channel, closes: collectHook(channel, 'onClose') })
  }
  return opened
}

describe('unsubscribe', () => {
  it('closes the channels of a user on one topic, and they stay away', async (t) => {
    const [topic, kept] = [freshTopic(), freshTopic()]
    const adas = await tabs(t, 'unsubscribed', topic)
    for (const { client } of adas) await client.join(kept)
    const [ben] = await tabs(t, 'stays', topic)
    const notes = collectEvents(ben.channel, 'note')
    const call = { id: 'users:unsubscribed', topic }
    assert.deepEqual(await api(server, 'unsubscribe', call), { channels: adas.length })
    for (const { client, channel, closes } of adas) {
      await closes.next()
      assert.equal(channel.state, 'closed')
      assert.equal(client.socket.isConnected(), true)
    }
    assert.deepEqual(await api(server, 'unsubscribe', call), { channels: 0 })
    await api(server, 'publish', { topic, event: 'note', payload: {} })
    await notes.next()
    const { topics } = await api(server, 'topics', { prefix: kept })
    assert.deepEqual(topics, [{ topic: kept, subscribers: adas.length }])
  })

  it('refuses a join that waits for another process', async (t) => {
    const own = await startChat({ processes: PROCESSES, apiKey: API_KEY })
    t.after(() => own.kill())
    const sockets = []
    for (let n = 0; n < 12; n++) sockets.push(await RawWebSocket.open(t, own, { query: 'vsn=2.0.0&user=late' }))
    for (const [n, socket] of sockets.entries()) await socket.join(`rooms:ready-${n}`)
    const [stopped] = own.workers()
    process.kill(stopped, 'SIGSTOP')
    await waitUntil(() => isStopped(stopped), 'the process has stopped')
    const topic = freshTopic()
    for (const socket of sockets) socket.send(['2', '2', topic, 'phx_join', {}])
    // Some of the calls reach a process that runs. It cannot ask the stopped one, and says so.
    const calls = Array.from({ length: 12 }, () => callApi(own, 'unsubscribe', { id: 'users:late', topic }).catch(() => {}))
    const replies = sockets.map((socket) => socket.receive(([, ref]) => ref === '2').catch(() => {}))
    const refused = await Promise.any(
      replies.map(async (one) => {
        const [, , , , payload] = await one
        assert.equal(payload.status, 'error')
        return payload.response
      }),
    )
    assert.deepEqual(refused, { reason: 'unsubscribed' })
    process.kill(stopped, 'SIGCONT')
    await Promise.all([...calls, ...replies])
  })
})

describe('disconnect', () => {
  it('closes the sockets of a user, and no other', async (t) => {
    const topic = freshTopic()
    const adas = await tabs(t, 'disconnected', topic)
    const [ben] = await tabs(t, 'connected', topic)
    assert.deepEqual(await api(server, 'disconnect', { id: 'users:disconnected' }), { sockets: adas.length })
    for (const { client } of adas) {
      const { code } = await client.closed.next()
      if (!client.variant.isPoll) assert.equal(code, 1001)
      // A stock client connects again by itself.
      await waitUntil(() => client.opened.all.length === 2, `${client.variant.name} reconnects`)
    }
    assert.equal(ben.client.closed.all.length, 0)
  })
})

/** Runs `watchfire publish`, with this on its standard input. Returns its exit code and what it prints. */
async function publish(args, /** @type {{ input?: string | Buffer, key?: string }} */ { input = '', key = API_KEY } = {}) {
  const env = { PATH: process.env.PATH, ...(key ? { WATCHFIRE_API_KEY: key } : {}) }
  const child = spawn(binary('watchfire'), ['publish', ...args], { env })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (part) => (output += part))
  child.stdin.on('error', () => {}).end(input)
  const ended = new Promise((resolve) => child.once('close', resolve))
  return { code: await withTimeout(ended, 'watchfire publish ends'), output }
}

describe('watchfire publish', () => {
  it('publishes JSON and bytes, and says why it cannot', async (t) => {
    const own = await startWatchfire({ processes: 1, settings: { ...ROOMS, 'api.key': API_KEY } })
    t.after(() => own.kill())
    const topic = freshTopic()
    const channel = await connect(t, own, websocket).join(topic)
    const [notes, bytes] = [collectEvents(channel, 'note'), collectEvents(channel, 'bin')]
    const to = ['--to', own.http('')]

    assert.deepEqual(await publish([topic, 'note', '{"n":1}', ...to]), { code: 0, output: '' })
    assert.deepEqual(await publish([topic, 'note', '-', ...to], { input: '{"n":2}\n' }), { code: 0, output: '' })
    const once = [topic, 'note', '{"n":3}', ...to, '--idempotency-key', 'once']
    assert.equal((await publish(once)).code, 0)
    assert.equal((await publish(once)).code, 0)
    assert.equal((await publish([topic, 'bin', '--binary', '-', ...to], { input: Buffer.from([1, 2, 255]) })).code, 0)
    assert.deepEqual(Buffer.from(await bytes.next()), Buffer.from([1, 2, 255]))
    assert.deepEqual(notes.all, [{ n: 1 }, { n: 2 }, { n: 3 }])

    /** @type {[string[], { key?: string }, RegExp][]} */
    const failures = [
      [[topic, 'note', '{}', ...to], { key: '' }, /set WATCHFIRE_API_KEY/],
      [[topic, 'note', '{}', ...to], { key: 'another-key-than-the-tests' }, /does not know this key/],
      [['site', 'note', '{}', ...to], {}, /reserves the topic "site"/],
      [[topic, 'note', '[1]', ...to], {}, /must be a JSON object/],
      [[topic, 'note', '{}', '--to', 'http://127.0.0.1:1'], {}, /cannot reach http:\/\/127\.0\.0\.1:1/],
    ]
    for (const [args, options, reason] of failures) {
      const { code, output } = await publish(args, options)
      assert.equal(code, 1, output)
      assert.match(output, reason)
    }
    assert.equal((await publish([topic, 'note', ...to])).code, 2, 'no payload')
    await own.stop()
  })
})

/**
 * A presence state without the order of keys and metas. It is also without `phx_ref_prev`: that names a version which a
 * client may have, and clients of another process may never have had it.
 */
function comparable(state) {
  const plain = (list) => list.map(({ phx_ref_prev, ...meta }) => meta)
  const metas = (list) => plain(list).toSorted((a, b) => (a.phx_ref < b.phx_ref ? -1 : 1))
  return Object.fromEntries(Object.entries(state).map(([key, value]) => [key, { metas: metas(value.metas) }]))
}
