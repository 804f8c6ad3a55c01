// Nothing is lost on a reconnect: topics with a history, and the published clients.

import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { setInterval, clearInterval } from 'node:timers'

import { connect, freshTopic, variants, newestWay } from '../lib/test-client.mjs'
import { faults, follow } from '../lib/followers.mjs'
import { API_KEY, callApi } from '../lib/http-api.mjs'
import { SOON_MS, waitUntil } from '../lib/deadlines.mjs'
import { isRunning, processesOfAll, startUpgradable, startWatchfire } from '../lib/server.mjs'

const HISTORY = '{ messages = 5000, age = "2m", bytes = "4MiB" }'
const RULES = [`{ pattern = "news:*", join = "anyone", history = ${HISTORY} }`]
const SETTINGS = {
  'socket.check_origin': 'any',
  'channels.rules': `[${RULES.join(', ')}]`,
  'api.key': API_KEY,
}

/** Publishes 1, 2, … over one connection until it is stopped; each after the answer to the one before. */
function publishing(server, topic, perSecond) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const call = (body) =>
    new Promise((resolve, reject) => {
      const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${API_KEY}` }
      const sent = request(server.http('/api/publish'), { method: 'POST', agent, headers }, (response) => {
        response
          .resume()
          .on('end', () => resolve(response.statusCode))
          .on('error', reject)
      })
      sent.on('error', reject).end(JSON.stringify(body))
    })
  let [n, running, failed] = [0, false, 0]
  let done
  const publish = async () => {
    if (running) return
    running = true
    try {
      if ((await call({ topic, event: 'note', payload: { n: n + 1 } })) === 200) n++
    } catch {
      failed++ // The process of this connection was killed. It may have published.
    }
    running = false
    done?.()
  }
  const timer = setInterval(publish, 1_000 / perSecond)
  return async () => {
    clearInterval(timer)
    if (running) await new Promise((resolve) => (done = resolve))
    agent.destroy()
    return { last: n, failed }
  }
}

/** Ends the connection as a lost network does: nothing more arrives over it. */
function cutOff({ socket: { conn }, variant }) {
  if (!variant.isPoll) return conn.terminate()
  conn.onmessage = () => {} // Older clients do not abort the poll that waits.
  conn.close()
}

describe('a topic with a history', () => {
  let server
  before(async () => (server = await startWatchfire({ settings: SETTINGS })))
  after(() => server.stop())

  for (const variant of variants) {
    it(`${variant.name}: a client that is cut off misses no message and gets none twice`, async (t) => {
      // The client 1.3 sends the parameters of its first join again, and loses messages of long polls.
      if (variant.library.repeatsJoins) return t.skip('its parameters cannot change')
      const topic = freshTopic('news')
      const client = connect(t, server, variant)
      const seen = await follow(client, topic)
      const stop = publishing(server, topic, 100)
      for (let cut = 1; cut <= 3; cut++) {
        const before = seen.notes.length
        await waitUntil(() => seen.notes.length > before + 10, 'messages arrive')
        cutOff(client)
        await waitUntil(() => seen.answers.length > cut, 'the client joins again')
      }
      const { last } = await stop()
      await waitUntil(() => seen.notes.at(-1) === last, 'the last message arrives')
      assert.deepEqual(faults(seen.notes, last), { missing: [], disorder: [] })
      assert.deepEqual(
        seen.answers.slice(1).map(({ recovered }) => recovered),
        [true, true, true],
      )
    })
  }

  it('the position of a message is no ref of a heartbeat', async (t) => {
    for (const variant of variants.filter(({ isPoll }) => !isPoll)) {
      const topic = freshTopic('news')
      const client = connect(t, server, variant, { heartbeatIntervalMs: 250 })
      const channel = await client.join(topic)
      const refs = []
      channel.on('note', (_, ref) => refs.push(ref))
      for (let n = 1; n <= 100; n++) await callApi(server, 'publish', { topic, event: 'note', payload: { n } })
      await waitUntil(() => refs.length === 100, 'all messages arrive')
      for (const ref of refs) assert.match(ref, /^[0-9a-z]+:[0-9]+$/)
      assert.equal(client.closed.all.length, 0, variant.name)
    }
  })
})

describe('a topic with a history in three processes', { skip: processesOfAll > 1 && 'runs once' }, () => {
  it('clients miss no message and get none twice while a process is killed', async (t) => {
    const server = await startWatchfire({ settings: SETTINGS, processes: 3 })
    t.after(() => server.stop())
    const topics = Array.from({ length: 6 }, () => freshTopic('news'))
    const followers = []
    for (const topic of topics) {
      for (let n = 0; n < 6; n++) followers.push({ topic, seen: await follow(connect(t, server, newestWay), topic) })
    }
    const stops = topics.map((topic) => publishing(server, topic, 20))
    const all = (count) => waitUntil(() => followers.every(({ seen }) => seen.notes.length > count), `${count} messages arrive`)
    await all(10)
    process.kill(server.workers()[1], 'SIGKILL')
    await waitUntil(() => followers.some(({ seen }) => seen.answers.length > 1), 'clients join again')
    await all(40)
    await waitUntil(() => server.workers().length === 3, 'the process is started again')
    await all(80)
    for (const [index, stop] of stops.entries()) {
      const { last } = await stop()
      for (const { topic, seen } of followers) {
        if (topic !== topics[index]) continue
        await waitUntil(() => seen.notes.includes(last), `${topic}: the last message arrives`)
        // After its process is killed, a publisher goes on with another one. A publish whose answer was lost with its process may be
        // repeated. None that was answered is lost.
        assert.deepEqual(faults(seen.notes, last).missing, [], topic)
        assert.equal(new Set(seen.positions).size, seen.notes.length, `${topic}: a message came twice`)
      }
    }
    // All followers of a topic have the same messages in the same order.
    for (const topic of topics) {
      const lists = followers.filter((follower) => follower.topic === topic).map(({ seen }) => seen)
      for (const { notes, answers } of lists) {
        assert.deepEqual(notes, lists[0].notes)
        assert.ok(
          answers.slice(1).every(({ recovered }) => recovered),
          JSON.stringify(answers),
        )
      }
    }
  })
})

describe('a topic with a history over an upgrade', { skip: processesOfAll > 1 && 'runs once' }, () => {
  for (const processes of [1, 3]) {
    it(`goes on in the new program without a gap, with ${processes} processes`, async (t) => {
      const settings = { ...SETTINGS, 'server.drain_period': '1s' }
      const { server, upgrade } = await startUpgradable(t, { settings, processes })
      const topic = freshTopic('news')
      const followers = []
      for (let n = 0; n < 6; n++) followers.push(await follow(connect(t, server, newestWay), topic))
      const stop = publishing(server, topic, 50)
      const all = (count) => waitUntil(() => followers.every(({ notes }) => notes.length > count), `${count} messages arrive`)
      await all(10)
      await upgrade()
      await waitUntil(() => !isRunning(server.pid), 'the old program ends')
      await waitUntil(() => followers.every(({ answers }) => answers.length > 1), 'all clients join again', 4 * SOON_MS)
      await all(followers[0].notes.length + 10)
      const { last } = await stop()
      for (const { notes, answers } of followers) {
        await waitUntil(() => notes.includes(last), 'the last message arrives')
        assert.deepEqual(faults(notes, last).missing, [])
        // A publish may be repeated whose answer was lost with the old program, and no other is there twice.
        assert.deepEqual(notes, followers[0].notes)
        assert.deepEqual(
          answers.slice(1).map(({ recovered }) => recovered),
          answers.slice(1).map(() => true),
        )
      }
    })
  }
})
