// Presence, as the real Presence object of each generation sees it.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, heard, ways } from '../lib/client.mjs'
import { newest } from '../lib/generations.mjs'
import { startChat } from '../lib/server.mjs'
import { Inbox } from '../lib/waiting.mjs'
import { Wire } from '../lib/wire.mjs'
import { assertNeverClosedNormally } from '../lib/witness.mjs'

let server
before(async () => (server = await startChat()))
after(async () => {
  await server.stop()
  assertNeverClosedNormally()
})

// These wait for ticks most of the time, so they wait together.
describe('the Presence object', { concurrency: true }, () => {
  for (const way of ways) {
    describe(way.name, { concurrency: true }, () => {
      it('sees who is there, who comes, and who goes', async (t) => {
        const topic = freshTopic('presence')
        const alice = await enter(t, way, topic, 'alice')
        await alice.until({ alice: ['online'] })

        const bob = await enter(t, way, topic, 'bob')
        await alice.until({ alice: ['online'], bob: ['online'] })
        await bob.until({ alice: ['online'], bob: ['online'] })

        bob.channel.leave()
        await alice.until({ alice: ['online'] })
      })

      it('sees two tabs of one user as one user', async (t) => {
        const topic = freshTopic('presence')
        const alice = await enter(t, way, topic, 'alice')
        const firstTab = await enter(t, way, topic, 'bob')
        await alice.until({ alice: ['online'], bob: ['online'] })
        const secondTab = await enter(t, way, topic, 'bob')
        await alice.until({ alice: ['online'], bob: ['online', 'online'] })
        await secondTab.until({ alice: ['online'], bob: ['online', 'online'] })

        firstTab.channel.leave()
        await alice.until({ alice: ['online'], bob: ['online'] })
        secondTab.channel.leave()
        await alice.until({ alice: ['online'] })
      })

      it('sees a user go away from the keyboard', async (t) => {
        const topic = freshTopic('presence')
        const alice = await enter(t, way, topic, 'alice')
        const bob = await enter(t, way, topic, 'bob')
        await alice.until({ alice: ['online'], bob: ['online'] })
        const [before] = alice.state().bob.metas
        bob.channel.push('away', {})
        await alice.until({ alice: ['online'], bob: ['away'] })
        await bob.until({ alice: ['online'], bob: ['away'] })
        const [after] = alice.state().bob.metas
        assert.equal(after.phx_ref_prev, before.phx_ref)
        assert.notEqual(after.phx_ref, before.phx_ref)
      })

      if (!way.isPoll) {
        it('sees a user whose connection broke leave', async (t) => {
          const topic = freshTopic('presence')
          const alice = await enter(t, way, topic, 'alice')
          const wire = await Wire.open(t, server)
          await wire.join(topic, { user: 'bob' })
          await alice.until({ alice: ['online'], bob: ['online'] })
          wire.destroy()
          await alice.until({ alice: ['online'] })
        })
      }
    })
  }
})

describe('presence', () => {
  const newestWay = ways.find(({ generation }) => generation === newest)

  it('a burst of joins is told in few diffs, each of many users', async (t) => {
    const topic = freshTopic('presence')
    const observer = await Wire.open(t, server)
    await observer.join(topic, { user: 'observer' })
    await observer.hear(([, , , event]) => event === 'presence_diff')
    const names = Array.from({ length: 60 }, (_, n) => `user ${n}`)
    const wires = await Promise.all(names.map(() => Wire.open(t, server)))
    const began = performance.now()
    await Promise.all(wires.map((wire, n) => wire.join(topic, { user: names[n] })))

    const joined = new Set()
    let diffs = 0
    while (joined.size < names.length) {
      const [joinRef, ref, , , diff] = await observer.hear(([, , , event]) => event === 'presence_diff')
      assert.deepEqual([joinRef, ref, diff.leaves], [null, null, {}])
      for (const name of Object.keys(diff.joins)) joined.add(name)
      diffs++
    }
    assert.deepEqual(joined, new Set(names))
    // One diff a tick, and ten ticks a second; each of the shards may be amid a tick.
    const ticks = Math.ceil((performance.now() - began) / 100) + 2
    assert.ok(diffs <= ticks, `${diffs} diffs in ${ticks} ticks`)
  })

  it('who comes and goes within a tick leaves no trace', async (t) => {
    const topic = freshTopic('presence')
    const observer = await enter(t, newestWay, topic, 'observer')
    const wire = await Wire.open(t, server)
    for (let n = 0; n < 10; n++) {
      wire.say([`${n}`, `${n}`, topic, 'phx_join', { user: 'brief' }])
      wire.say([`${n}`, `${n}-leave`, topic, 'phx_leave', {}])
    }
    await wire.join(topic, { user: 'last' }, 'last')
    await observer.until({ observer: ['online'], last: ['online'] })
  })

  it('the state comes to who joins, after the reply and with its join_ref', async (t) => {
    const topic = freshTopic('presence')
    const wire = await Wire.open(t, server)
    wire.say(['7', '7', topic, 'phx_join', { user: 'alice' }])
    assert.deepEqual(await wire.hear(), ['7', '7', topic, 'phx_reply', { status: 'ok', response: {} }])
    const [joinRef, ref, , event, state] = await wire.hear(([, , , event]) => event === 'presence_state')
    assert.deepEqual([joinRef, ref, event], ['7', null, 'presence_state'])
    const [meta] = state.alice.metas
    assert.equal(meta.status, 'online')
    assert.match(meta.phx_ref, /^[\w-]{16}$/)
  })

  it('names that JavaScript or JSON might trip over come through', async (t) => {
    const topic = freshTopic('presence')
    const names = ['__proto__', 'constructor', '"quoted"', 'ü🔥\u0000', '']
    const visitors = []
    for (const name of names) visitors.push(await enter(t, newestWay, topic, name))
    const expected = Object.fromEntries(names.map((name) => [name, ['online']]))
    for (const visitor of visitors) await visitor.until(expected)
  })
})

/** A client on a presence topic, and what its Presence object shows. */
async function enter(t, way, topic, user) {
  const channel = connect(t, server, way).socket.channel(topic, { user })
  const presence = watch(way.generation, channel)
  const joined = new Promise((resolve) => channel.join().receive('ok', resolve))
  await joined
  return {
    channel,
    state: presence.state,
    /** Wait until the users and their statuses are these. */
    async until(expected) {
      const wanted = sorted(Object.getOwnPropertyNames(expected).map((key) => [key, expected[key]]))
      const isIt = () => sorted(shown(presence.state())) === wanted
      if (!isIt()) await presence.synced.next(isIt, `${user} sees ${wanted}, has ${sorted(shown(presence.state()))}`)
    },
  }
}

const shown = (state) =>
  Object.getOwnPropertyNames(state).map((key) => [key, state[key].metas.map(({ status }) => status)])

const sorted = (entries) => JSON.stringify(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))

/** The Presence object since 1.4; before that there were functions, and the state was one's own. */
function watch({ Presence }, channel) {
  const synced = new Inbox()
  if (typeof Presence === 'function') {
    const presence = new Presence(channel)
    presence.onSync(() => synced.put(true))
    return { synced, state: () => presence.state }
  }
  let state = {}
  const states = heard(channel, 'presence_state')
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

/** 1.3 adds what a diff says joined even when the state told of it before; 1.4 looks at the refs. */
function withoutRepeats(state) {
  const once = (metas) => [...new Map(metas.map((meta) => [meta.phx_ref, meta])).values()]
  return Object.fromEntries(Object.entries(state).map(([key, { metas }]) => [key, { metas: once(metas) }]))
}
