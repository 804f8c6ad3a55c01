// The frames themselves, for what no client library lets one see or say.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { freshTopic } from '../lib/client.mjs'
import { startChat } from '../lib/server.mjs'
import { Wire, frame, opcode } from '../lib/wire.mjs'

let server
before(async () => (server = await startChat()))
after(() => server.stop())

const OK = { status: 'ok', response: {} }
const UNMATCHED = { status: 'error', response: { reason: 'unmatched topic' } }

describe('V2', () => {
  it('join, reply, broadcast, leave and close are arrays of five', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    wire.say(['3', '3', topic, 'phx_join', {}])
    assert.deepEqual(await wire.hear(), ['3', '3', topic, 'phx_reply', OK])
    wire.say(['3', '4', topic, 'new_msg', { body: 'hi' }])
    assert.deepEqual(await wire.hear(), [null, null, topic, 'new_msg', { body: 'hi' }])
    wire.say(['3', '5', topic, 'phx_leave', {}])
    assert.deepEqual(await wire.hear(), ['3', '5', topic, 'phx_reply', OK])
    assert.deepEqual(await wire.hear(), ['3', '3', topic, 'phx_close', {}])
  })

  it('a crash and a stop carry the join_ref as their ref', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '1')
    wire.say(['1', '2', topic, 'crash', {}])
    assert.deepEqual(await wire.hear(), ['1', '1', topic, 'phx_error', { reason: 'channel_crash' }])
    await wire.join(topic, {}, '3')
    wire.say(['3', '4', topic, 'stop', {}])
    assert.deepEqual(await wire.hear(), ['3', '3', topic, 'phx_close', {}])
    assert.deepEqual(await wire.ask(['3', '5', topic, 'ping', {}]), [null, '5', topic, 'phx_reply', UNMATCHED])
  })

  it('a second join is answered before the first is closed', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '1')
    wire.say(['2', '2', topic, 'phx_join', {}])
    assert.deepEqual(await wire.hear(), ['2', '2', topic, 'phx_reply', OK])
    assert.deepEqual(await wire.hear(), ['1', '1', topic, 'phx_close', {}])
    wire.say(['2', '3', topic, 'new_msg', { once: true }])
    assert.deepEqual(await wire.hear(), [null, null, topic, 'new_msg', { once: true }])
    wire.say(['2', '4', topic, 'ping', {}])
    assert.deepEqual(await wire.hear(), ['2', '4', topic, 'phx_reply', OK], 'no second copy before it')
  })

  it('a second join that is refused ends the first all the same', async (t) => {
    const topic = freshTopic('presence')
    const wire = await Wire.open(t, server)
    await wire.join(topic, { user: 'alice' }, '1')
    const lifecycle = ([, , , event]) => event === 'phx_reply' || event === 'phx_close'
    wire.say(['2', '2', topic, 'phx_join', {}])
    const refused = { status: 'error', response: { reason: 'no user' } }
    assert.deepEqual(await wire.hear(lifecycle), ['2', '2', topic, 'phx_reply', refused])
    assert.deepEqual(await wire.hear(lifecycle), ['1', '1', topic, 'phx_close', {}])
    assert.deepEqual(await wire.ask(['1', '3', topic, 'away', {}]), [null, '3', topic, 'phx_reply', UNMATCHED])
  })

  it('a refused join leaves nothing behind', async (t) => {
    const topic = freshTopic('presence')
    const wire = await Wire.open(t, server)
    wire.say(['1', '1', topic, 'phx_join', {}])
    const refused = { status: 'error', response: { reason: 'no user' } }
    assert.deepEqual(await wire.hear(), ['1', '1', topic, 'phx_reply', refused])
    assert.deepEqual(await wire.ask(['1', '2', topic, 'away', {}]), [null, '2', topic, 'phx_reply', UNMATCHED])
  })

  it('a join that no channel answers for has no join_ref', async (t) => {
    const wire = await Wire.open(t, server)
    for (const topic of ['elsewhere', 'room:1', 'rooms', '', 'phoenix', 'ROOMS:1']) {
      assert.deepEqual(await wire.ask(['9', '9', topic, 'phx_join', {}]), [null, '9', topic, 'phx_reply', UNMATCHED])
    }
  })

  it('a leave of a topic that is not joined is granted', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    assert.deepEqual(await wire.ask(['8', '9', topic, 'phx_leave', {}]), ['8', '9', topic, 'phx_reply', OK])
  })

  it('any other event on a topic that is not joined is refused, with no join_ref', async (t) => {
    const wire = await Wire.open(t, server)
    for (const event of ['ping', 'new_msg', 'phx_close', 'heartbeat', '']) {
      const topic = freshTopic()
      assert.deepEqual(await wire.ask(['8', '9', topic, event, {}]), [null, '9', topic, 'phx_reply', UNMATCHED])
    }
    assert.deepEqual(await wire.ask([null, '1', 'phoenix', 'other', {}]), [null, '1', 'phoenix', 'phx_reply', UNMATCHED])
  })

  it('a heartbeat is answered whatever its payload, without a join_ref', async (t) => {
    const wire = await Wire.open(t, server)
    const answer = (ref) => [null, ref, 'phoenix', 'phx_reply', OK]
    let ref = 0
    for (const payload of [{}, null, 'x', 7, [1, [2]], { a: { b: 1 } }]) {
      assert.deepEqual(await wire.ask([null, `${++ref}`, 'phoenix', 'heartbeat', payload]), answer(`${ref}`))
    }
    assert.deepEqual(await wire.ask(['join', 'beat', 'phoenix', 'heartbeat', {}]), answer('beat'))
  })

  it('replies repeat a ref of any JSON type', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '1')
    for (const ref of ['x', '', 7, -1.5, 0, true, false, 'é"\\', [1, 'a'], { a: 1 }]) {
      wire.say(['1', ref, topic, 'ping', { ref }])
      assert.deepEqual(await wire.hear(), ['1', ref, topic, 'phx_reply', { status: 'ok', response: { ref } }])
    }
  })

  it('a payload may be any JSON, the false-like included', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '1')
    for (const payload of [null, false, 0, '', [], {}, [null], { a: null }]) {
      wire.say(['1', '2', topic, 'ping', payload])
      assert.deepEqual(await wire.hear(), ['1', '2', topic, 'phx_reply', { status: 'ok', response: payload }])
    }
  })

  it('a payload comes back as it was written, numbers and all', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '1')
    const payload = '{"big":123456789012345678901234567890,"e":1E+2,"s":"\\u00fc\\/","twice":1,"twice":2}'
    wire.text(`["1","2","${topic}","ping",${payload}]`)
    const answer = await wire.messages.next()
    assert.ok(answer.includes(payload), answer)
  })

  it('a broadcast of what is no object fails the channel', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    for (const payload of ['text', 5, null, [1]]) {
      await wire.join(topic, {}, '1')
      wire.say(['1', '2', topic, 'new_msg', payload])
      assert.deepEqual(await wire.hear(), ['1', '1', topic, 'phx_error', { reason: 'channel_crash' }])
    }
  })

  it('a message is dropped when its join_ref is another join’s', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '5')
    for (const stale of ['4', 5, '5 ', '', ['5']]) {
      wire.say([stale, 'lost', topic, 'ping', {}])
      wire.say([stale, 'lost', topic, 'phx_leave', {}])
    }
    wire.say(['5', 'mine', topic, 'ping', {}])
    wire.say([null, 'none', topic, 'ping', {}])
    assert.deepEqual(await wire.hear(), ['5', 'mine', topic, 'phx_reply', OK])
    assert.deepEqual(await wire.hear(), ['5', 'none', topic, 'phx_reply', OK], 'null is any join')
  })

  it('a join without a join_ref lends its ref to later replies', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    assert.deepEqual(await wire.ask([null, '1', topic, 'phx_join', {}]), [null, '1', topic, 'phx_reply', OK])
    assert.deepEqual(await wire.ask([null, '2', topic, 'ping', {}]), ['1', '2', topic, 'phx_reply', OK])
  })

  it('a push without a ref is handled and not answered', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    await wire.join(topic, {}, '1')
    wire.say(['1', null, topic, 'ping', {}])
    wire.say(['1', '2', topic, 'ping', {}])
    assert.deepEqual(await wire.hear(), ['1', '2', topic, 'phx_reply', OK])
  })

  it('elements after the fifth are ignored', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    wire.say(['1', '1', topic, 'phx_join', {}, 'more', { and: 'more' }])
    assert.deepEqual(await wire.hear(), ['1', '1', topic, 'phx_reply', OK])
  })

  it('a message may come in fragments, with pings between them', async (t) => {
    const topic = freshTopic()
    const wire = await Wire.open(t, server)
    const text = Buffer.from(JSON.stringify(['1', '1', topic, 'phx_join', { ü: '🔥' }]))
    wire.write(frame(opcode.text, text.subarray(0, 10), { isFinal: false }))
    wire.write(frame(opcode.ping, 'are you there?'))
    for (let at = 10; at < text.length - 1; at++) {
      wire.write(frame(opcode.continuation, text.subarray(at, at + 1), { isFinal: false }))
    }
    wire.write(frame(opcode.continuation, text.subarray(-1)))
    assert.deepEqual(await wire.hear(), ['1', '1', topic, 'phx_reply', OK])
  })

  it('a frame may come byte by byte', async (t) => {
    const wire = await Wire.open(t, server)
    for (const byte of frame(opcode.text, JSON.stringify([null, '1', 'phoenix', 'heartbeat', {}]))) {
      wire.write(Buffer.from([byte]))
    }
    assert.deepEqual(await wire.hear(), [null, '1', 'phoenix', 'phx_reply', OK])
  })

  it('a close is answered with its own code', async (t) => {
    for (const code of [1000, 1001, 4001]) {
      const wire = await Wire.open(t, server)
      wire.write(frame(opcode.close, Buffer.from([code >> 8, code & 255])))
      assert.equal((await wire.closed()).code, code)
    }
  })
})

describe('V1', () => {
  const open = (t) => Wire.open(t, server, { query: 'vsn=1.0.0' })
  const heard = async (wire) => JSON.parse(await wire.messages.next())

  it('join, reply, broadcast, leave and close are objects of four', async (t) => {
    const topic = freshTopic()
    const wire = await open(t)
    wire.say({ topic, event: 'phx_join', payload: {}, ref: '3', join_ref: '3' })
    assert.deepEqual(await heard(wire), { topic, event: 'phx_reply', payload: OK, ref: '3' })
    wire.say({ topic, event: 'new_msg', payload: { body: 'hi' }, ref: '4' })
    assert.deepEqual(await heard(wire), { topic, event: 'new_msg', payload: { body: 'hi' }, ref: null })
    wire.say({ topic, event: 'phx_leave', payload: {}, ref: '5' })
    assert.deepEqual(await heard(wire), { topic, event: 'phx_reply', payload: OK, ref: '5' })
    assert.deepEqual(await heard(wire), { topic, event: 'phx_close', payload: {}, ref: '3' })
  })

  it('a crash carries the join’s ref', async (t) => {
    const topic = freshTopic()
    const wire = await open(t)
    wire.say({ topic, event: 'phx_join', payload: {}, ref: 1 })
    assert.deepEqual(await heard(wire), { topic, event: 'phx_reply', payload: OK, ref: 1 })
    wire.say({ topic, event: 'crash', payload: {}, ref: 2 })
    assert.deepEqual(await heard(wire), { topic, event: 'phx_error', payload: { reason: 'channel_crash' }, ref: 1 })
  })

  it('is what a client without a vsn speaks, in binary frames too', async (t) => {
    const wire = await Wire.open(t, server, { query: '' })
    wire.binary(JSON.stringify({ topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '1' }))
    assert.deepEqual(await heard(wire), { topic: 'phoenix', event: 'phx_reply', payload: OK, ref: '1' })
  })

  it('a missing key closes the socket with 1011', async (t) => {
    const whole = { topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '1' }
    for (const key of Object.keys(whole)) {
      const wire = await open(t)
      wire.say({ ...whole, [key]: undefined })
      assert.equal((await wire.closed()).code, 1011, `without ${key}`)
    }
  })
})
