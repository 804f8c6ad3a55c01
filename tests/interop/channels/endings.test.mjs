// How the server ends connections, and that every generation of the client comes back.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, heard, reply, ways, waysWhere } from '../lib/client.mjs'
import { Poll } from '../lib/poll.mjs'
import { startChat, startWatchfire } from '../lib/server.mjs'
import { Inbox, until, within } from '../lib/waiting.mjs'
import { Wire, dial } from '../lib/wire.mjs'
import { assertNeverClosedNormally } from '../lib/witness.mjs'

const LATER_MS = 15_000

describe('a restart', { concurrency: true }, () => {
  after(assertNeverClosedNormally)

  it('is told with 1012, and every client comes back and joins again', async (t) => {
    const settings = { 'server.drain_period': '300ms' }
    const first = await startWatchfire({ settings })
    t.after(() => first.kill())
    const topic = freshTopic()
    const members = []
    for (const way of ways) {
      const client = connect(t, first, way)
      const channel = await client.join(topic)
      members.push({ way, client, channel, messages: heard(channel, 'new_msg') })
    }

    const { port } = first
    await first.stop()
    for (const { client } of members.filter(({ way }) => !way.isPoll)) {
      assert.equal((await client.closed.next()).code, 1012)
    }

    const second = await startWatchfire({ port, settings })
    t.after(() => second.kill())
    for (const { way, client, channel } of members) {
      const isBack = () => client.joinsSent.length > 1 && channel.state === 'joined'
      await until(isBack, `${way.name} joins again`, LATER_MS)
    }
    members[0].channel.push('new_msg', { after: 'the restart' })
    for (const { way, messages } of members) {
      assert.deepEqual(await messages.next(() => true, `${way.name} hears`), { after: 'the restart' })
    }
    for (const { client } of members) client.socket.disconnect()
    await second.stop()
  })

  it('sends clients away over the whole drain period, not all at once', async (t) => {
    const server = await startWatchfire({ settings: { 'server.drain_period': '1s' } })
    t.after(() => server.kill())
    const wires = await Promise.all(Array.from({ length: 40 }, () => Wire.open(t, server)))
    server.terminate()
    const times = await Promise.all(
      wires.map(async (wire) => {
        assert.equal((await wire.closed()).code, 1012)
        return performance.now()
      }),
    )
    const first = Math.min(...times)
    assert.ok(Math.max(...times) - first > 500, 'the last long after the first')
    assert.ok(times.filter((time) => time - first < 300).length < 30, 'most of them later')
    await server.stop()
  })

  it('takes no new connections once it has begun', async (t) => {
    const server = await startWatchfire({ settings: { 'server.drain_period': '2s' } })
    t.after(() => server.kill())
    const wire = await Wire.open(t, server)
    const session = await Poll.open(server)
    const waiting = session.get()
    await until(async () => (await server.metric('watchfire_edge_parked_polls')) > 0, 'the GET waits')
    server.terminate()
    assert.equal((await within(waiting, 'the parked GET is answered')).status, 410)
    await assert.rejects(session.get(), 'no one is listening')
    assert.equal((await wire.closed()).code, 1012)
    await server.stop()
  })

  it('lets a server without clients end at once', async () => {
    const server = await startChat()
    await Poll.open(server)
    const began = performance.now()
    await server.stop()
    assert.ok(performance.now() - began < 2_000)
  })

  it('of the machine, not told at all, is survived as well', async (t) => {
    const first = await startWatchfire()
    const topic = freshTopic()
    const members = ways.map((way) => ({ way, client: connect(t, first, way) }))
    for (const member of members) member.channel = await member.client.join(topic)
    first.kill()
    await first.exited()
    const second = await startWatchfire({ port: first.port })
    t.after(() => second.kill())
    for (const { way, client, channel } of members) {
      const isBack = () => client.joinsSent.length > 1 && channel.state === 'joined'
      await until(isBack, `${way.name} joins again`, LATER_MS)
    }
  })
})

describe('silence', { concurrency: true }, () => {
  let server
  const settings = { 'socket.idle_timeout': '1s' }
  before(async () => (server = await startWatchfire({ settings })))
  after(async () => {
    await server.stop()
    assertNeverClosedNormally()
  })

  for (const way of waysWhere(({ isPoll }) => !isPoll)) {
    it(`ends ${way.name} with 1001, and it comes back`, async (t) => {
      const client = connect(t, server, way)
      const channel = await client.join(freshTopic())
      assert.equal((await client.closed.next()).code, 1001)
      await until(() => client.joinsSent.length === 2 && channel.state === 'joined', 'it joins again')
    })
  }

  it('is broken by a heartbeat', async (t) => {
    const client = connect(t, server, ways[0], { heartbeatIntervalMs: 300 })
    const silent = await Wire.open(t, server)
    await client.opened.next()
    assert.equal((await silent.closed()).code, 1001)
    for (let beats = 0; beats < 6; beats++) await client.messages.next(({ topic }) => topic === 'phoenix')
    assert.equal(client.closed.all.length, 0)
  })

  it('ends a connection that never asked for anything', async (t) => {
    const socket = await dial(t, server)
    const ended = new Inbox()
    socket.on('close', ended.put).resume()
    await ended.next(() => true, 'the connection ends', LATER_MS)
  })

  it('ends half an upgrade, and holds nobody up meanwhile', async (t) => {
    const halves = await Promise.all(Array.from({ length: 50 }, () => dial(t, server)))
    const ended = halves.map((socket) => {
      const inbox = new Inbox()
      socket.on('data', (bytes) => inbox.put(bytes.toString('latin1'))).on('close', () => inbox.put('end'))
      socket.write('GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n')
      return inbox
    })
    const channel = await connect(t, server, ways[0], { heartbeatIntervalMs: 300 }).join(freshTopic())
    const messages = heard(channel, 'new_msg')
    let isOver = false
    const all = Promise.all(
      ended.map(async (inbox) => {
        assert.match(await inbox.next(() => true, 'a refusal', LATER_MS), /^HTTP\/1\.1 408 /)
        await inbox.next((item) => item === 'end', 'the end', LATER_MS)
      }),
    ).finally(() => (isOver = true))
    for (let n = 0; !isOver; n++) {
      channel.push('new_msg', { n })
      const began = performance.now()
      assert.deepEqual(await messages.next(), { n })
      assert.ok(performance.now() - began < 1_000)
      await Promise.race([all, new Promise((resolve) => setTimeout(resolve, 100))])
    }
    await all
  })
})

describe('a heartbeat that nobody answers', () => {
  it('makes the client come back', async (t) => {
    const server = await startChat()
    t.after(() => server.kill())
    // The server is there and takes connections, but does not run.
    for (const way of waysWhere(({ isPoll, serializer }) => !isPoll && serializer === 2)) {
      const client = connect(t, server, way, { heartbeatIntervalMs: 60 })
      const channel = await client.join(freshTopic())
      process.kill(server.pid, 'SIGSTOP')
      await client.messages.next(() => false, 'silence', 150).catch(() => {})
      process.kill(server.pid, 'SIGCONT')
      await until(() => channel.state === 'joined', `${way.name} is joined`)
      assert.equal((await reply(channel.push('ping', {}))).status, 'ok')
      client.socket.disconnect()
    }
    await server.stop()
  })
})
