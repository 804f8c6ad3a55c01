// Stock Phoenix clients through a restart (SIGUSR2), and through a process that no longer responds.

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { connect, freshTopic, variants, newestWay } from '../lib/test-client.mjs'
import { LongPollSession } from '../lib/long-poll.mjs'
import { ROOMS, isRunning, startUpgradable, startWatchfire } from '../lib/server.mjs'
import { SOON_MS, waitUntil } from '../lib/deadlines.mjs'

/** A client in a room, with the messages that it received. */
async function member(t, server, variant, topic) {
  const client = connect(t, server, variant)
  const channel = await client.join(topic)
  const received = new Set()
  channel.on('new_msg', ({ n }) => received.add(n))
  return { name: variant.name, client, channel, received, isJoined: () => channel.state === 'joined' }
}

/** Waits until all members are joined. The error names those that are not, and how often each has tried. */
async function assertAllJoined(members) {
  const others = () => members.filter(({ isJoined }) => !isJoined())
  const tell = ({ name, client, channel }) =>
    `${name} (${channel.state}, ${client.joinsSent.length} joins, ${client.closed.all.length} closes)`
  await waitUntil(
    () => others().length === 0,
    () => `all clients are joined, but not ${others().map(tell).join(', ')}`,
    4 * SOON_MS,
  )
}

/** Sends messages until each member has received a common one: a member may join just after a message. */
async function assertAllHear(members, from, first) {
  let n = first
  await waitUntil(
    async () => {
      from.channel.push('new_msg', { n: ++n })
      return Array.from({ length: n - first }, (_, i) => first + 1 + i).some((n) => members.every(({ received }) => received.has(n)))
    },
    'all hear the same message',
    4 * SOON_MS,
  )
}

/**
 * All but one: phoenix 1.5.14 over long poll does not always come back. On a busy machine it was seen to give up after its fifth
 * connection had closed, with its channel errored, while every other client was in the room. closing.test.mjs has it.
 */
const steady = variants.filter(({ library, isPoll }) => !(isPoll && library.version === '1.5.14'))

describe('a restart with SIGUSR2', () => {
  for (const processes of [1, 3]) {
    it(`brings every stock client back into its room, with ${processes} processes`, async (t) => {
      const settings = { ...ROOMS, 'server.drain_period': '1s' }
      const { server, upgrade } = await startUpgradable(t, { processes, settings })
      const topic = freshTopic('rooms')
      const members = []
      for (const variant of steady) members.push(await member(t, server, variant, topic))
      await assertAllHear(members, members[0], 0)
      const session = await LongPollSession.open(server)

      // Tools that rotate logs send this signal. It changes nothing.
      for (const pid of [server.pid, ...server.workers()]) process.kill(pid, 'SIGUSR1')
      const successor = await upgrade()
      await waitUntil(() => !isRunning(server.pid), 'the old program ends')
      assert.ok(isRunning(successor), server.stderr)
      await waitUntil(() => members.every(({ client }) => client.joinsSent.length > 1), 'all clients join again', 4 * SOON_MS)
      await assertAllJoined(members)
      await assertAllHear(members, members[0], 1000)
      // Not 410: releases of phoenix.js before 1.8 would not join their channels again.
      assert.equal((await session.get()).status, 500)
      for (const { name, client } of members.filter(({ client }) => !client.variant.isPoll)) {
        const codes = client.closed.all.map(({ code }) => code)
        assert.ok(codes.includes(1012), `${name} was closed with ${codes}`)
      }
    })
  }
})

describe('a process that does not respond', () => {
  it('is replaced, and its clients come back into their room', async (t) => {
    const server = await startWatchfire({ processes: 2, settings: { ...ROOMS, 'server.drain_period': '100ms' } })
    t.after(() => server.stop())
    const topic = freshTopic('rooms')
    const members = await Promise.all(Array.from({ length: 12 }, () => member(t, server, newestWay, topic)))
    await assertAllHear(members, members[0], 0)
    const [, stopped] = server.workers()
    process.kill(stopped, 'SIGSTOP')
    await waitUntil(() => !isRunning(stopped), 'the stopped process is killed')
    const lost = () => members.filter(({ client }) => client.closed.all.length > 0)
    await waitUntil(() => lost().length > 0, 'its clients notice')
    await waitUntil(() => server.workers().length === 2, 'it is replaced')
    await assertAllJoined(members)
    assert.ok(lost().length < members.length, 'the clients of the other process stay')
    await assertAllHear(members, members[0], 1000)
    // A process that answers late is missing in the metrics of that moment.
    await waitUntil(async () => (await server.metric('watchfire_process_hangs_total')) === 1, 'the hang is counted')
  })
})
