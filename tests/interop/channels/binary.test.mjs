// Bytes instead of JSON: both ways on V2 websockets, and no harm where they cannot be carried.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, heard, reply, ways, waysWhere } from '../lib/client.mjs'
import { newest } from '../lib/generations.mjs'
import { startChat } from '../lib/server.mjs'
import { Wire, binaryPush } from '../lib/wire.mjs'
import { assertNeverClosedNormally } from '../lib/witness.mjs'

let server
before(async () => (server = await startChat()))
after(async () => {
  await server.stop()
  assertNeverClosedNormally()
})

const everyByte = Uint8Array.from({ length: 256 }, (_, n) => n).buffer
const speakers = waysWhere(
  ({ generation, serializer, isPoll }) => generation.speaksBinary && serializer === 2 && !isPoll,
)
const newestWay = ways[0]

for (const way of speakers) {
  describe(way.name, () => {
    it('gets back the bytes that it pushed', async (t) => {
      const channel = await connect(t, server, way).join(freshTopic())
      for (const bytes of [everyByte, new ArrayBuffer(0), new Uint8Array(1_000_000).fill(7).buffer]) {
        const { status, response } = await reply(channel.push('ping', bytes))
        assert.equal(status, 'ok')
        assert.deepEqual(new Uint8Array(response), new Uint8Array(bytes))
      }
    })

    it('hears bytes that are broadcast, its own included', async (t) => {
      const topic = freshTopic()
      const alices = await connect(t, server, way).join(topic)
      const bobs = await connect(t, server, way).join(topic)
      const inboxes = [heard(alices, 'bin'), heard(bobs, 'bin')]
      const { response } = await reply(bobs.push('bin', everyByte))
      assert.deepEqual(response, everyByte)
      for (const inbox of inboxes) assert.deepEqual(await inbox.next(), everyByte)
    })

    it('mixes bytes and JSON on one channel', async (t) => {
      const channel = await connect(t, server, way).join(freshTopic())
      const pushes = [{ n: 1 }, everyByte, { n: 2 }, everyByte].map((payload) => channel.push('ping', payload))
      const answers = await Promise.all(pushes.map((push) => reply(push)))
      assert.deepEqual(answers.map(({ response }) => response), [{ n: 1 }, everyByte, { n: 2 }, everyByte])
    })
  })
}

for (const way of waysWhere((way) => way.generation === newest && (way.isPoll || way.serializer === 1))) {
  it(`${way.name} misses broadcast bytes, and nothing else`, async (t) => {
    const topic = freshTopic()
    const client = connect(t, server, way)
    const messages = heard(await client.join(topic), 'new_msg')
    const speaker = await connect(t, server, newestWay).join(topic)
    await reply(speaker.push('bin', everyByte))
    speaker.push('new_msg', { after: 'bytes' })
    assert.deepEqual(await messages.next(), { after: 'bytes' })
    assert.deepEqual(client.messages.all.filter(({ event }) => event === 'bin'), [])
    assert.equal(client.opened.all.length, 1, 'its connection went on')
  })
}

for (const way of waysWhere(({ isPoll, generation }) => isPoll && generation.batches)) {
  it(`${way.name} is heard, and told that bytes cannot be answered with bytes`, async (t) => {
    const topic = freshTopic()
    const listener = heard(await connect(t, server, newestWay).join(topic), 'bin')
    const client = connect(t, server, way)
    const channel = await client.join(topic)
    assert.deepEqual(await reply(channel.push('bin', everyByte)), {
      status: 'error',
      response: { reason: 'binary cannot be carried over long poll' },
    })
    assert.deepEqual(await listener.next(), everyByte)
    assert.deepEqual(await reply(channel.push('ping', { n: 1 })), { status: 'ok', response: { n: 1 } })
    assert.equal(client.opened.all.length, 1, 'its session went on')
  })
}

describe('on the wire', () => {
  it('replies and broadcasts have Phoenix’s bytes', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '1')
    const data = Buffer.from([1, 2, 255])
    wire.binary(binaryPush({ joinRef: '1', ref: '36', topic, event: 'bin', data }))
    const isReply = (message) => message[0] === 1
    const frames = (await wire.messages.take(2)).toSorted((a, b) => Number(isReply(b)) - Number(isReply(a)))
    const header = (kind, ...fields) =>
      Buffer.concat([Buffer.from([kind, ...fields.map((field) => field.length)]), Buffer.from(fields.join(''))])
    assert.deepEqual(frames, [
      Buffer.concat([header(1, '1', '36', topic, 'ok'), data]),
      Buffer.concat([header(2, topic, 'bin'), data]),
    ])
  })

  it('refs that were numbers in JSON are their text in bytes', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, 1)
    wire.binary(binaryPush({ joinRef: '1', ref: '2', topic, event: 'ping', data: 'x' }))
    const answer = await wire.messages.next()
    assert.equal(answer.toString('latin1'), `\u0001\u0001\u0001${String.fromCharCode(topic.length)}\u000212${topic}okx`)
  })

  it('an empty join_ref is none, and is accepted', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '1')
    wire.binary(binaryPush({ joinRef: '', ref: '2', topic, event: 'ping', data: 'x' }))
    assert.equal((await wire.messages.next()).at(0), 1)
  })

  it('a stale join_ref is dropped', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '5')
    wire.binary(binaryPush({ joinRef: '4', ref: '6', topic, event: 'ping', data: 'x' }))
    wire.binary(binaryPush({ joinRef: '5', ref: '7', topic, event: 'ping', data: 'y' }))
    assert.equal((await wire.messages.next()).at(-1), 'y'.charCodeAt(0))
  })
})
