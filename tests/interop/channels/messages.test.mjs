// The everyday operations of every npm client version, over each transport and serializer that it has.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, collectEvents, collectHook, reply, variants } from '../lib/test-client.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { startChat } from '../lib/server.mjs'

let server
before(async () => (server = await startChat()))
after(() => server.stop())

const numbers = (count) => Array.from({ length: count }, (_, n) => n)

/** Older clients POST each message of a long poll by itself, and the requests may overtake each other. */
const keepsOrder = (variant) => !variant.isPoll || variant.library.batches

/** Compares numbers without order, for clients that cannot keep an order. */
function inOrderOf(variant, got) {
  return keepsOrder(variant) ? got : got.toSorted((a, b) => a - b)
}

/** Waits until the client has received that many messages of a topic. */
function answered(client, topic, count) {
  const received = () => client.messages.all.filter((message) => message.topic === topic).length
  return waitUntil(() => received() >= count, `${count} messages of ${topic}`)
}

for (const variant of variants) {
  describe(variant.name, () => {
    it('joins a public room', async (t) => {
      const client = connect(t, server, variant)
      const channel = client.socket.channel(freshTopic())
      assert.deepEqual(await reply(channel.join()), { status: 'ok', response: {} })
      assert.equal(channel.state, 'joined')
    })

    it('sees who enters a room, and how many are there', async (t) => {
      const topic = freshTopic()
      const ann = connect(t, server, variant).socket.channel(topic, { user: 'Ann' })
      const [entered, members] = ['user_entered', 'members'].map((event) => collectEvents(ann, event))
      assert.deepEqual(await reply(ann.join()), { status: 'ok', response: { count: 1, users: ['Ann'] } })
      const bob = connect(t, server, variant).socket.channel(topic, { user: 'Bob' })
      assert.equal((await reply(bob.join())).response.count, 2)
      await entered.next(({ user }) => user === 'Bob', 'Bob entered')
      const { users } = await members.next(({ count }) => count === 2, 'two members')
      assert.deepEqual(users.toSorted(), ['Ann', 'Bob'])
      bob.leave()
      assert.deepEqual(await members.next(({ count }) => count === 1, 'one member'), { count: 1, users: ['Ann'] })
    })

    it('gets the reason when a join is rejected', async (t) => {
      const client = connect(t, server, variant)
      const refused = { status: 'error', response: { reason: 'no user' } }
      assert.deepEqual(await client.joinRefused(freshTopic('presence')), refused)
      assert.deepEqual(await client.joinRefused(freshTopic('presence'), { user: 7 }), refused)
    })

    it('gets an error for a topic without a channel', async (t) => {
      const client = connect(t, server, variant)
      const refused = { status: 'error', response: { reason: 'unmatched topic' } }
      assert.deepEqual(await client.joinRefused('elsewhere:1'), refused)
    })

    it('gets back the payload that it pushed, for any JSON value', async (t) => {
      const channel = await connect(t, server, variant).join(freshTopic())
      // phoenix.js itself replaces a falsy payload by {}.
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

    it('gets a reply to each of many pushes, in order', async (t) => {
      const channel = await connect(t, server, variant).join(freshTopic())
      const answers = []
      const pushes = numbers(50).map((n) => channel.push('ping', { n }))
      await Promise.all(pushes.map((push) => reply(push).then(({ response }) => answers.push(response.n))))
      assert.deepEqual(inOrderOf(variant, answers), numbers(50))
    })

    it('receives broadcasts in its room, its own included', async (t) => {
      const topic = freshTopic()
      const alice = collectEvents(await connect(t, server, variant).join(topic), 'new_msg')
      const bobs = await connect(t, server, variant).join(topic)
      const bob = collectEvents(bobs, 'new_msg')
      for (const n of numbers(5)) bobs.push('new_msg', { n })
      for (const inbox of [alice, bob]) {
        const messages = await inbox.take(5)
        assert.deepEqual(
          inOrderOf(
            variant,
            messages.map(({ n }) => n),
          ),
          numbers(5),
        )
      }
    })

    it('receives nothing from other rooms', async (t) => {
      const [here, there] = [freshTopic(), freshTopic()]
      const client = connect(t, server, variant)
      const receivedHere = collectEvents(await client.join(here), 'new_msg')
      const other = await client.join(there)
      const receivedThere = collectEvents(other, 'new_msg')
      other.push('new_msg', { to: 'there' })
      await receivedThere.next()
      assert.deepEqual(receivedHere.all, [])
    })

    it('leaves, and then receives nothing more', async (t) => {
      const [topic, elsewhere] = [freshTopic(), freshTopic()]
      const client = connect(t, server, variant)
      const channel = await client.join(topic)
      const other = await client.join(elsewhere)
      const stayer = await connect(t, server, variant).join(topic)
      const stayed = collectEvents(stayer, 'new_msg')

      // phoenix.js reports its own leave as ok at once; only the reply of the server counts here.
      channel.leave()
      await answered(client, topic, 2)
      await reply(other.push('ping', {}))
      const [, left, ...rest] = client.messages.all.filter((message) => message.topic === topic)
      assert.deepEqual(left.payload, { status: 'ok', response: {} })
      // A V1 frame does not say which join it closes, so the server sends none after a leave.
      const close = variant.serializer === 1 ? [] : [['phx_close', {}]]
      assert.deepEqual(
        rest.map(({ event, payload }) => [event, payload]),
        close,
      )
      assert.equal(channel.state, 'closed')
      stayer.push('new_msg', { anyone: 'there?' })
      await stayed.next()
      await reply(other.push('ping', {}))
      assert.deepEqual(
        client.messages.all.filter(({ event }) => event === 'new_msg'),
        [],
      )
    })

    it('joins again after it left', async (t) => {
      const topic = freshTopic()
      const client = connect(t, server, variant)
      const first = await client.join(topic)
      first.leave()
      if (!keepsOrder(variant)) await answered(client, topic, 2)
      const second = await client.join(topic)
      assert.deepEqual(await reply(second.push('ping', { n: 2 })), { status: 'ok', response: { n: 2 } })
      assert.equal(second.state, 'joined')
    })

    it('lets a second channel of the same topic replace the first', async (t) => {
      const topic = freshTopic()
      const client = connect(t, server, variant)
      await client.join(topic)
      const second = await client.join(topic)
      const receivedBySecond = collectEvents(second, 'new_msg')
      second.push('new_msg', { n: 1 })
      assert.deepEqual(await receivedBySecond.next(), { n: 1 })
      assert.equal(second.state, 'joined')
      const joins = client.messages.all.filter(({ event }) => event === 'new_msg')
      assert.equal(joins.length, 1, 'one join, one delivery')
    })

    for (const event of ['crash', 'no such event']) {
      it(`joins again by itself when its channel crashes (${event})`, async (t) => {
        const client = connect(t, server, variant)
        const channel = client.socket.channel(freshTopic())
        const errors = collectHook(channel, 'onError')
        const join = channel.join()
        await reply(join)
        const rejoined = new Promise((resolve) => {
          let joins = 0 // The hook runs at once for the join that has already succeeded.
          join.receive('ok', () => ++joins === 2 && resolve(null))
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

    it('keeps its other channels when one crashes', async (t) => {
      const client = connect(t, server, variant)
      const failing = await client.join(freshTopic())
      const other = await client.join(freshTopic())
      const errors = collectHook(other, 'onError')
      failing.push('crash', {})
      await client.messages.next(({ event }) => event === 'phx_error')
      assert.deepEqual(await reply(other.push('ping', { ok: 1 })), { status: 'ok', response: { ok: 1 } })
      assert.deepEqual(errors.all, [])
    })

    it('does not rejoin when its channel was stopped', async (t) => {
      const [topic, elsewhere] = [freshTopic(), freshTopic()]
      const client = connect(t, server, variant)
      const channel = await client.join(topic)
      const other = await client.join(elsewhere)
      const closes = collectHook(channel, 'onClose')
      channel.push('stop', {})
      await closes.next(() => true, 'phx_close')
      assert.equal(channel.state, 'closed')
      for (let n = 1; n <= 5; n++) await reply(other.push('ping', { n }))
      assert.deepEqual(client.joinsSent, [topic, elsewhere])
    })

    it('does not wait for messages that the server drops', async (t) => {
      const client = connect(t, server, variant)
      const channel = await client.join(freshTopic())
      // A message to a topic that was never joined gets an error reply and has no other effect.
      client.socket.push({ topic: 'rooms:never', event: 'ping', payload: {}, ref: 'lost', join_ref: null })
      const { payload } = await client.messages.next(({ ref }) => ref === 'lost')
      assert.deepEqual(payload, { status: 'error', response: { reason: 'unmatched topic' } })
      assert.equal((await reply(channel.push('ping', { n: 1 }))).status, 'ok')
    })

    if (!variant.isPoll) {
      it('gets a reply to each heartbeat', async (t) => {
        const client = connect(t, server, variant, { heartbeatIntervalMs: 150 })
        for (let beats = 0; beats < 3; beats++) {
          const { event, payload } = await client.messages.next(({ topic }) => topic === 'phoenix')
          assert.equal(event, 'phx_reply')
          assert.deepEqual(payload, { status: 'ok', response: {} })
        }
        assert.equal(client.opened.all.length, 1, 'it never had to reconnect')
      })
    }

    if (variant.library.pings) {
      it('can measure its latency', async (t) => {
        const client = connect(t, server, variant)
        await client.opened.next()
        const answered = new Promise((resolve) => client.socket.ping(resolve))
        assert.ok((await answered) >= 0)
      })
    }
  })
}

describe('one room with every client version on every transport', () => {
  it('delivers every message once to each member, in order per sender', async (t) => {
    const topic = freshTopic()
    const members = await Promise.all(
      variants.map(async (variant) => {
        const channel = await connect(t, server, variant).join(topic)
        return { variant, channel, inbox: collectEvents(channel, 'new_msg') }
      }),
    )
    const rounds = numbers(10)
    for (const n of rounds) for (const [from, { channel }] of members.entries()) channel.push('new_msg', { from, n })
    for (const { variant, inbox } of members) {
      const messages = await inbox.take(members.length * rounds.length, variant.name)
      members.forEach(({ variant: speaker }, from) => {
        const spoken = messages.filter((message) => message.from === from).map(({ n }) => n)
        assert.deepEqual(inOrderOf(speaker, spoken), rounds, `${speaker.name}, as received by ${variant.name}`)
      })
    }
  })

  it('delivers every message to members who stay while others join and leave', async (t) => {
    const topic = freshTopic()
    const [speakerWay, ...others] = variants
    const speaker = await connect(t, server, speakerWay).join(topic)
    const stayers = await Promise.all(
      others.map(async (variant) => ({ variant, inbox: collectEvents(await connect(t, server, variant).join(topic), 'new_msg') })),
    )
    const rejoining = connect(t, server, speakerWay)
    for (const n of numbers(40)) {
      speaker.push('new_msg', { n })
      // Below the limit of joins per second of one socket.
      const channel = await rejoining.join(topic)
      speaker.push('new_msg', { n: n + 0.5 })
      channel.leave()
    }
    const expected = numbers(80).map((n) => n / 2)
    for (const { variant, inbox } of stayers) {
      const messages = await inbox.take(80, variant.name)
      assert.deepEqual(
        messages.map(({ n }) => n),
        expected,
        variant.name,
      )
    }
  })
})
