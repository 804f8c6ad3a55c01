// The ways in which the server ends connections. Every version of the client reconnects.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, collectEvents, reply, variants, variantsWhere } from '../lib/test-client.mjs'
import { LongPollSession } from '../lib/long-poll.mjs'
import { ROOMS, startChat, startWatchfire } from '../lib/server.mjs'
import { waitUntil } from '../lib/deadlines.mjs'

const LATER_MS = 15_000
/** The default of `server.drain_period`, less the time of an exit. */
const DRAIN_MS = 9_000

describe('a restart', { concurrency: true }, () => {
  it('closes with 1012, and every client reconnects and joins again', async (t) => {
    const settings = { 'server.drain_period': '300ms', ...ROOMS }
    const first = await startWatchfire({ settings })
    t.after(() => first.kill())
    const topic = freshTopic()
    const members = []
    for (const variant of variants) {
      const client = connect(t, first, variant)
      const channel = await client.join(topic)
      members.push({ variant, client, channel, messages: collectEvents(channel, 'new_msg') })
    }

    const { port } = first
    await first.stop()
    for (const { client } of members.filter(({ variant }) => !variant.isPoll)) {
      assert.equal((await client.closed.next()).code, 1012)
    }

    const second = await startWatchfire({ port, settings })
    t.after(() => second.kill())
    for (const { variant, client, channel } of members) {
      const isBack = () => client.joinsSent.length > 1 && channel.state === 'joined'
      await waitUntil(isBack, `${variant.name} joins again`, LATER_MS)
    }
    members[0].channel.push('new_msg', { after: 'the restart' })
    for (const { variant, messages } of members) {
      assert.deepEqual(await messages.next(() => true, `${variant.name} receives`), { after: 'the restart' })
    }
    for (const { client } of members) client.socket.disconnect()
    await second.stop()
  })

  it('of a server without clients ends at once', async () => {
    const server = await startChat()
    await LongPollSession.open(server)
    const began = performance.now()
    await server.stop()
    assert.ok(performance.now() - began < DRAIN_MS, 'it waited for the end of the drain period')
  })

  it('without notice, as after a crash of the machine, is survived as well', async (t) => {
    const first = await startWatchfire({ settings: ROOMS })
    const topic = freshTopic()
    const members = []
    for (const variant of variants) {
      const client = connect(t, first, variant)
      members.push({ variant, client, channel: await client.join(topic) })
    }
    first.kill()
    await first.exited()
    const second = await startWatchfire({ port: first.port, settings: ROOMS })
    t.after(() => second.kill())
    for (const { variant, client, channel } of members) {
      const isBack = () => client.joinsSent.length > 1 && channel.state === 'joined'
      await waitUntil(isBack, `${variant.name} joins again`, LATER_MS)
    }
  })
})

describe('an idle connection', { concurrency: true }, () => {
  let server
  // Three seconds, so that a pause of this test process on a busy machine does not make its own clients silent.
  const settings = { 'socket.idle_timeout': '3s', ...ROOMS }
  before(async () => (server = await startWatchfire({ settings })))
  after(() => server.stop())

  for (const variant of variantsWhere(({ isPoll }) => !isPoll)) {
    it(`of ${variant.name} is closed with 1001, and the client reconnects`, async (t) => {
      const client = connect(t, server, variant)
      const channel = await client.join(freshTopic())
      assert.equal((await client.closed.next()).code, 1001)
      await waitUntil(() => client.joinsSent.length > 1 && channel.state === 'joined', 'it joins again')
    })
  }
})

describe('a heartbeat without a reply', () => {
  it('makes the client reconnect', async (t) => {
    const server = await startChat()
    t.after(() => server.kill())
    // The server accepts connections, but its processes are stopped.
    const signal = (name) => {
      for (const pid of [server.pid, ...server.workers()]) process.kill(pid, name)
    }
    for (const variant of variantsWhere(({ isPoll, serializer }) => !isPoll && serializer === 2)) {
      const client = connect(t, server, variant, { heartbeatIntervalMs: 60 })
      const channel = await client.join(freshTopic())
      signal('SIGSTOP')
      await client.heartbeatsLost.next(() => true, `${variant.name} misses the reply`)
      // Only the heartbeat that was lost is short of time.
      client.socket.heartbeatIntervalMs = 30_000
      signal('SIGCONT')
      const isBack = () => client.opened.all.length > 1 && channel.state === 'joined'
      await waitUntil(isBack, `${variant.name} is joined again`)
      assert.equal((await reply(channel.push('ping', {}))).status, 'ok')
      client.socket.disconnect()
    }
    await server.stop()
  })
})
