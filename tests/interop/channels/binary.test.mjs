// Binary payloads: both directions on V2 WebSockets, and no effect on clients without binary support.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, collectEvents, reply, variants, variantsWhere } from '../lib/test-client.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { startChat } from '../lib/server.mjs'
import { RawWebSocket, binaryPush } from '../lib/raw-socket.mjs'

let server
before(async () => (server = await startChat()))
after(() => server.stop())

const everyByte = Uint8Array.from({ length: 256 }, (_, n) => n).buffer
const binaryVariants = variantsWhere(({ library, serializer, isPoll }) => library.supportsBinary && serializer === 2 && !isPoll)
const newestWay = variants[0]

for (const variant of binaryVariants) {
  describe(variant.name, () => {
    it('gets back the bytes that it pushed', async (t) => {
      const channel = await connect(t, server, variant).join(freshTopic())
      for (const bytes of [everyByte, new ArrayBuffer(0), new Uint8Array(1_000_000).fill(7).buffer]) {
        const { status, response } = await reply(channel.push('ping', bytes))
        assert.equal(status, 'ok')
        assert.deepEqual(new Uint8Array(response), new Uint8Array(bytes))
      }
    })

    it('receives broadcast bytes, its own included', async (t) => {
      const topic = freshTopic()
      const alices = await connect(t, server, variant).join(topic)
      const bobs = await connect(t, server, variant).join(topic)
      const inboxes = [collectEvents(alices, 'bin'), collectEvents(bobs, 'bin')]
      const { response } = await reply(bobs.push('bin', everyByte))
      assert.deepEqual(response, everyByte)
      for (const inbox of inboxes) assert.deepEqual(await inbox.next(), everyByte)
    })

    it('mixes bytes and JSON on one channel', async (t) => {
      const channel = await connect(t, server, variant).join(freshTopic())
      const pushes = [{ n: 1 }, everyByte, { n: 2 }, everyByte].map((payload) => channel.push('ping', payload))
      const answers = await Promise.all(pushes.map((push) => reply(push)))
      assert.deepEqual(
        answers.map(({ response }) => response),
        [{ n: 1 }, everyByte, { n: 2 }, everyByte],
      )
    })
  })
}

for (const variant of variantsWhere((variant) => variant.library === newest && (variant.isPoll || variant.serializer === 1))) {
  it(`${variant.name} receives no broadcast bytes, and everything else`, async (t) => {
    const topic = freshTopic()
    const client = connect(t, server, variant)
    const messages = collectEvents(await client.join(topic), 'new_msg')
    const speaker = await connect(t, server, newestWay).join(topic)
    await reply(speaker.push('bin', everyByte))
    speaker.push('new_msg', { after: 'bytes' })
    assert.deepEqual(await messages.next(), { after: 'bytes' })
    assert.deepEqual(
      client.messages.all.filter(({ event }) => event === 'bin'),
      [],
    )
    assert.equal(client.opened.all.length, 1, 'its connection was replaced')
  })
}

for (const variant of variantsWhere(({ isPoll, library }) => isPoll && library.batches)) {
  it(`${variant.name} can push bytes, and gets an error because the reply cannot carry bytes`, async (t) => {
    const topic = freshTopic()
    const listener = collectEvents(await connect(t, server, newestWay).join(topic), 'bin')
    const client = connect(t, server, variant)
    const channel = await client.join(topic)
    assert.deepEqual(await reply(channel.push('bin', everyByte)), {
      status: 'error',
      response: { reason: 'binary cannot be carried over long poll' },
    })
    assert.deepEqual(await listener.next(), everyByte)
    assert.deepEqual(await reply(channel.push('ping', { n: 1 })), { status: 'ok', response: { n: 1 } })
    assert.equal(client.opened.all.length, 1, 'its session was replaced')
  })
}

describe('a binary frame', () => {
  it('of a reply or broadcast has the bytes that Phoenix sends', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    const data = Buffer.from([1, 2, 255])
    socket.binary(binaryPush({ joinRef: '1', ref: '36', topic, event: 'bin', data }))
    const isReply = (message) => message[0] === 1
    const frames = (await socket.messages.take(2)).toSorted((a, b) => Number(isReply(b)) - Number(isReply(a)))
    const header = (kind, ...fields) =>
      Buffer.concat([Buffer.from([kind, ...fields.map((field) => field.length)]), Buffer.from(fields.join(''))])
    assert.deepEqual(frames, [Buffer.concat([header(1, '1', '36', topic, 'ok'), data]), Buffer.concat([header(2, topic, 'bin'), data])])
  })
})
