// Presence, as the real Presence object of each client version shows it.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, collectEvents, variants } from '../lib/test-client.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { startChat } from '../lib/server.mjs'
import { Inbox } from '../lib/deadlines.mjs'
import { RawWebSocket } from '../lib/raw-socket.mjs'

let server
before(async () => (server = await startChat()))
after(() => server.stop())

// These tests mostly wait for ticks, so they run concurrently.
describe('the Presence object', { concurrency: true }, () => {
  for (const variant of variants) {
    describe(variant.name, { concurrency: true }, () => {
      it('shows present users, joins and leaves', async (t) => {
        const topic = freshTopic('presence')
        const alice = await enter(t, variant, topic, 'alice')
        await alice.waitUntil({ alice: ['online'] })

        const bob = await enter(t, variant, topic, 'bob')
        await alice.waitUntil({ alice: ['online'], bob: ['online'] })
        await bob.waitUntil({ alice: ['online'], bob: ['online'] })

        bob.channel.leave()
        await alice.waitUntil({ alice: ['online'] })
      })

      it('shows two tabs of one user as one user', async (t) => {
        const topic = freshTopic('presence')
        const alice = await enter(t, variant, topic, 'alice')
        const firstTab = await enter(t, variant, topic, 'bob')
        await alice.waitUntil({ alice: ['online'], bob: ['online'] })
        const secondTab = await enter(t, variant, topic, 'bob')
        await alice.waitUntil({ alice: ['online'], bob: ['online', 'online'] })
        await secondTab.waitUntil({ alice: ['online'], bob: ['online', 'online'] })

        firstTab.channel.leave()
        await alice.waitUntil({ alice: ['online'], bob: ['online'] })
        secondTab.channel.leave()
        await alice.waitUntil({ alice: ['online'] })
      })

      it('shows a user who goes idle', async (t) => {
        const topic = freshTopic('presence')
        const alice = await enter(t, variant, topic, 'alice')
        const bob = await enter(t, variant, topic, 'bob')
        await alice.waitUntil({ alice: ['online'], bob: ['online'] })
        const [before] = alice.state().bob.metas
        bob.channel.push('away', {})
        await alice.waitUntil({ alice: ['online'], bob: ['away'] })
        await bob.waitUntil({ alice: ['online'], bob: ['away'] })
        const [after] = alice.state().bob.metas
        assert.equal(after.phx_ref_prev, before.phx_ref)
        assert.notEqual(after.phx_ref, before.phx_ref)
      })

      if (!variant.isPoll) {
        it('shows the leave of a user whose connection broke', async (t) => {
          const topic = freshTopic('presence')
          const alice = await enter(t, variant, topic, 'alice')
          const socket = await RawWebSocket.open(t, server)
          await socket.join(topic, { user: 'bob' })
          await alice.waitUntil({ alice: ['online'], bob: ['online'] })
          socket.destroy()
          await alice.waitUntil({ alice: ['online'] })
        })
      }
    })
  }
})

describe('presence', () => {
  const newestWay = variants.find(({ library }) => library === newest)

  it('sends a burst of joins in few diffs, each with many users', async (t) => {
    const topic = freshTopic('presence')
    const observer = await RawWebSocket.open(t, server)
    await observer.join(topic, { user: 'observer' })
    await observer.receive(([, , , event]) => event === 'presence_diff')
    const names = Array.from({ length: 60 }, (_, n) => `user ${n}`)
    const sockets = await Promise.all(names.map(() => RawWebSocket.open(t, server)))
    const began = performance.now()
    await Promise.all(sockets.map((socket, n) => socket.join(topic, { user: names[n] })))

    const joined = new Set()
    let diffs = 0
    while (joined.size < names.length) {
      const [joinRef, ref, , , diff] = await observer.receive(([, , , event]) => event === 'presence_diff')
      assert.deepEqual([joinRef, ref, diff.leaves], [null, null, {}])
      for (const name of Object.keys(diff.joins)) joined.add(name)
      diffs++
    }
    assert.deepEqual(joined, new Set(names))
    // One diff per tick, ten ticks per second; each shard may be in the middle of a tick.
    const ticks = Math.ceil((performance.now() - began) / 100) + 2
    assert.ok(diffs <= ticks, `${diffs} diffs in ${ticks} ticks`)
  })

  it('sends the state to a new member after the reply, with its join_ref', async (t) => {
    const topic = freshTopic('presence')
    const socket = await RawWebSocket.open(t, server)
    socket.send(['7', '7', topic, 'phx_join', { user: 'alice' }])
    assert.deepEqual(await socket.receive(), ['7', '7', topic, 'phx_reply', { status: 'ok', response: {} }])
    const [joinRef, ref, , event, state] = await socket.receive(([, , , event]) => event === 'presence_state')
    assert.deepEqual([joinRef, ref, event], ['7', null, 'presence_state'])
    const [meta] = state.alice.metas
    assert.equal(meta.status, 'online')
    assert.match(meta.phx_ref, /^[\w-]{16}$/)
  })

  it('delivers user names that are special in JavaScript or JSON', async (t) => {
    const topic = freshTopic('presence')
    const names = ['__proto__', 'constructor', '"quoted"', 'ü🔥\u0000', '']
    const visitors = []
    for (const name of names) visitors.push(await enter(t, newestWay, topic, name))
    const expected = Object.fromEntries(names.map((name) => [name, ['online']]))
    for (const visitor of visitors) await visitor.waitUntil(expected)
  })
})

/** A client on a presence topic, and the contents of its Presence object. */
async function enter(t, variant, topic, user) {
  const channel = connect(t, server, variant).socket.channel(topic, { user })
  const presence = watch(variant.library, channel)
  const joined = new Promise((resolve) => channel.join().receive('ok', resolve))
  await joined
  return {
    channel,
    state: presence.state,
    /** Waits until these are the users and their statuses. */
    async waitUntil(expected) {
      const wanted = sorted(Object.getOwnPropertyNames(expected).map((key) => [key, expected[key]]))
      const isIt = () => sorted(shown(presence.state())) === wanted
      if (!isIt()) await presence.synced.next(isIt, `${user} sees ${wanted}, has ${sorted(shown(presence.state()))}`)
    },
  }
}

const shown = (state) => Object.getOwnPropertyNames(state).map((key) => [key, state[key].metas.map(({ status }) => status)])

const sorted = (entries) => JSON.stringify(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))

/** The Presence object since 1.4; before that there were functions, and the caller kept the state. */
function watch({ Presence }, channel) {
  const synced = new Inbox()
  if (typeof Presence === 'function') {
    const presence = new Presence(channel)
    presence.onSync(() => synced.put(true))
    return { synced, state: () => presence.state }
  }
  let state = {}
  const states = collectEvents(channel, 'presence_state')
  let pending = []
  channel.on('presence_state', (whole) => {
    state = Presence.syncState(state, whole)
    for (const diff of pending) state = Presence.syncDiff(state, diff)
    pending = []
    synced.put(true)
  })
  channel.on('presence_diff', (diff) => {
    if (states.all.length === 0) return pending.push(diff)
    state = Presence.syncDiff(state, diff)
    synced.put(true)
  })
  return { synced, state: () => withoutRepeats(state) }
}

/** 1.3 adds a user from a diff even when the state contained the user already; 1.4 compares the refs. */
function withoutRepeats(state) {
  const once = (metas) => [...new Map(metas.map((meta) => [meta.phx_ref, meta])).values()]
  return Object.fromEntries(Object.entries(state).map(([key, { metas }]) => [key, { metas: once(metas) }]))
}
