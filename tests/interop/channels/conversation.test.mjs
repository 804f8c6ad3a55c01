// What every generation of the npm client does all day, over each transport and serializer it has.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, heard, hooked, reply, ways } from '../lib/client.mjs'
import { startChat } from '../lib/server.mjs'
import { assertNeverClosedNormally } from '../lib/witness.mjs'

let server
before(async () => (server = await startChat()))
after(async () => {
  await server.stop()
  assertNeverClosedNormally()
})

const numbers = (count) => Array.from({ length: count }, (_, n) => n)

/** Numbers as they must be compared: clients that POST each message by itself cannot keep an order. */
function inOrderOf(way, got) {
  return way.isPoll && !way.generation.batches ? got.toSorted((a, b) => a - b) : got
}

for (const way of ways) {
  describe(way.name, () => {
    it('joins a room that takes anyone', async (t) => {
      const client = connect(t, server, way)
      const channel = client.socket.channel(freshTopic())
      assert.deepEqual(await reply(channel.join()), { status: 'ok', response: {} })
      assert.equal(channel.state, 'joined')
    })

    it('is told why a join is refused', async (t) => {
      const client = connect(t, server, way)
      const refused = { status: 'error', response: { reason: 'no user' } }
      assert.deepEqual(await client.joinInVain(freshTopic('presence')), refused)
      assert.deepEqual(await client.joinInVain(freshTopic('presence'), { user: 7 }), refused)
    })

    it('is told that no channel answers for a topic', async (t) => {
      const client = connect(t, server, way)
      const refused = { status: 'error', response: { reason: 'unmatched topic' } }
      assert.deepEqual(await client.joinInVain('elsewhere:1'), refused)
    })

    it('gets back the payload that it pushed, whatever JSON it is', async (t) => {
      const channel = await connect(t, server, way).join(freshTopic())
      // phoenix.js itself turns a false-like payload into {}.
      const payloads = [
        {},
        { body: 'hello', nested: { list: [1, 2.5, -3e-7, null, true, ''] } },
        [],
        ['a', ['b']],
        'text',
        'grüße 🔥 \u0000 \u2028 " \\ </script>',
        5,
        -0.25,
        1e300,
        true,
        { ['k'.repeat(300)]: 'v'.repeat(20_000) },
      ]
      for (const payload of payloads) {
        assert.deepEqual(await reply(channel.push('ping', payload)), { status: 'ok', response: payload })
      }
    })

    it('gets an answer to each of many pushes, in their order', async (t) => {
      const channel = await connect(t, server, way).join(freshTopic())
      const answers = []
      const pushes = numbers(50).map((n) => channel.push('ping', { n }))
      await Promise.all(pushes.map((push) => reply(push).then(({ response }) => answers.push(response.n))))
      assert.deepEqual(inOrderOf(way, answers), numbers(50))
    })

    it('hears what is broadcast in its room, its own included', async (t) => {
      const topic = freshTopic()
      const alice = heard(await connect(t, server, way).join(topic), 'new_msg')
      const bobs = await connect(t, server, way).join(topic)
      const bob = heard(bobs, 'new_msg')
      for (const n of numbers(5)) bobs.push('new_msg', { n })
      for (const inbox of [alice, bob]) {
        const messages = await inbox.take(5)
        assert.deepEqual(inOrderOf(way, messages.map(({ n }) => n)), numbers(5))
      }
    })

    it('hears nothing of other rooms', async (t) => {
      const [here, there] = [freshTopic(), freshTopic()]
      const client = connect(t, server, way)
      const heardHere = heard(await client.join(here), 'new_msg')
      const other = await client.join(there)
      const heardThere = heard(other, 'new_msg')
      other.push('new_msg', { to: 'there' })
      await heardThere.next()
      assert.deepEqual(heardHere.all, [])
    })

    it('leaves, and then hears no more', async (t) => {
      const [topic, elsewhere] = [freshTopic(), freshTopic()]
      const client = connect(t, server, way)
      const channel = await client.join(topic)
      const other = await client.join(elsewhere)
      const stayer = await connect(t, server, way).join(topic)
      const stayed = heard(stayer, 'new_msg')

      // phoenix.js calls its own leave ok at once; the server's word is what counts here.
      channel.leave()
      await client.messages.next(({ event }) => event === 'phx_close')
      const [, left, ...rest] = client.messages.all.filter((message) => message.topic === topic)
      assert.deepEqual(left.payload, { status: 'ok', response: {} })
      assert.deepEqual(rest.map(({ event, payload }) => [event, payload]), [['phx_close', {}]])
      assert.equal(channel.state, 'closed')
      stayer.push('new_msg', { anyone: 'there?' })
      await stayed.next()
      await reply(other.push('ping', {}))
      assert.deepEqual(client.messages.all.filter(({ event }) => event === 'new_msg'), [])
    })

    it('joins again after it left', async (t) => {
      const topic = freshTopic()
      const client = connect(t, server, way)
      const first = await client.join(topic)
      first.leave()
      // V1 cannot say which join a close belongs to, so there the second join waits for it.
      if (way.serializer === 1) await client.messages.next(({ event }) => event === 'phx_close')
      const second = await client.join(topic)
      assert.deepEqual(await reply(second.push('ping', { n: 2 })), { status: 'ok', response: { n: 2 } })
    })

    // Over V1, a client that leaves before it joins again is closed by the close of its own leave.
    if (way.serializer === 2 || !way.generation.leavesBeforeRejoin) {
      it('lets a second channel of the same topic take over', async (t) => {
        const topic = freshTopic()
        const client = connect(t, server, way)
        await client.join(topic)
        const second = await client.join(topic)
        const heardBySecond = heard(second, 'new_msg')
        second.push('new_msg', { n: 1 })
        assert.deepEqual(await heardBySecond.next(), { n: 1 })
        assert.equal(second.state, 'joined')
        const joins = client.messages.all.filter(({ event }) => event === 'new_msg')
        assert.equal(joins.length, 1, 'one join, one delivery')
      })
    }

    for (const event of ['crash', 'no such event']) {
      it(`joins again by itself when its channel fails (${event})`, async (t) => {
        const client = connect(t, server, way)
        const channel = client.socket.channel(freshTopic())
        const errors = hooked(channel, 'onError')
        const join = channel.join()
        await reply(join)
        const rejoined = new Promise((resolve) => {
          let joins = 0 // The hook runs at once for the join that is through.
          join.receive('ok', () => ++joins === 2 && resolve())
        })
        channel.push(event, {})
        await errors.next(() => true, 'phx_error')
        await rejoined
        assert.deepEqual(await reply(channel.push('ping', { again: true })), {
          status: 'ok',
          response: { again: true },
        })
        assert.equal(client.messages.all.filter(({ event }) => event === 'phx_error').length, 1)
      })
    }

    it('does not lose its other channels when one fails', async (t) => {
      const client = connect(t, server, way)
      const failing = await client.join(freshTopic())
      const other = await client.join(freshTopic())
      const errors = hooked(other, 'onError')
      failing.push('crash', {})
      await client.messages.next(({ event }) => event === 'phx_error')
      assert.deepEqual(await reply(other.push('ping', { ok: 1 })), { status: 'ok', response: { ok: 1 } })
      assert.deepEqual(errors.all, [])
    })

    it('stays away when its channel was stopped', async (t) => {
      const [topic, elsewhere] = [freshTopic(), freshTopic()]
      const client = connect(t, server, way)
      const channel = await client.join(topic)
      const other = await client.join(elsewhere)
      const closes = hooked(channel, 'onClose')
      channel.push('stop', {})
      await closes.next(() => true, 'phx_close')
      assert.equal(channel.state, 'closed')
      for (let n = 1; n <= 5; n++) await reply(other.push('ping', { n }))
      assert.deepEqual(client.joinsSent, [topic, elsewhere])
    })

    it('is kept waiting by no message that the server drops', async (t) => {
      const client = connect(t, server, way)
      const channel = await client.join(freshTopic())
      // A message to a topic that was never joined gets an error reply, and costs nothing else.
      client.socket.push({ topic: 'rooms:never', event: 'ping', payload: {}, ref: 'lost', join_ref: null })
      const { payload } = await client.messages.next(({ ref }) => ref === 'lost')
      assert.deepEqual(payload, { status: 'error', response: { reason: 'unmatched topic' } })
      assert.equal((await reply(channel.push('ping', { n: 1 }))).status, 'ok')
    })

    if (!way.isPoll) {
      it('gets an answer to each heartbeat', async (t) => {
        const client = connect(t, server, way, { heartbeatIntervalMs: 40 })
        for (let beats = 0; beats < 3; beats++) {
          const { event, payload } = await client.messages.next(({ topic }) => topic === 'phoenix')
          assert.equal(event, 'phx_reply')
          assert.deepEqual(payload, { status: 'ok', response: {} })
        }
        assert.equal(client.opened.all.length, 1, 'it never had to reconnect')
      })
    }

    if (way.generation.pings) {
      it('can measure its distance', async (t) => {
        const client = connect(t, server, way)
        await client.opened.next()
        const answered = new Promise((resolve) => client.socket.ping(resolve))
        assert.ok((await answered) >= 0)
      })
    }
  })
}

describe('one room with every generation on every transport', () => {
  it('gives each member every message once, those of each speaker in order', async (t) => {
    const topic = freshTopic()
    const members = await Promise.all(
      ways.map(async (way) => {
        const channel = await connect(t, server, way).join(topic)
        return { way, channel, inbox: heard(channel, 'new_msg') }
      }),
    )
    const rounds = numbers(10)
    for (const n of rounds) members.forEach(({ channel }, from) => channel.push('new_msg', { from, n }))
    for (const { way, inbox } of members) {
      const messages = await inbox.take(members.length * rounds.length, way.name)
      members.forEach(({ way: speaker }, from) => {
        const spoken = messages.filter((message) => message.from === from).map(({ n }) => n)
        assert.deepEqual(inOrderOf(speaker, spoken), rounds, `${speaker.name}, as heard by ${way.name}`)
      })
    }
  })

  it('loses nothing for those who stay while others come and go', async (t) => {
    const topic = freshTopic()
    const [speakerWay, ...others] = ways
    const speaker = await connect(t, server, speakerWay).join(topic)
    const stayers = await Promise.all(
      others.map(async (way) => ({ way, inbox: heard(await connect(t, server, way).join(topic), 'new_msg') })),
    )
    const restless = connect(t, server, speakerWay)
    for (const n of numbers(40)) {
      speaker.push('new_msg', { n })
      // Within the joins that a socket may make in a second.
      const channel = await restless.join(topic)
      speaker.push('new_msg', { n: n + 0.5 })
      channel.leave()
    }
    const expected = numbers(80).map((n) => n / 2)
    for (const { way, inbox } of stayers) {
      const messages = await inbox.take(80, way.name)
      assert.deepEqual(messages.map(({ n }) => n), expected, way.name)
    }
  })
})
