// The frames themselves, where no client library shows or sends them.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { freshTopic } from '../lib/test-client.mjs'
import { startChat } from '../lib/server.mjs'
import { RawWebSocket, frame, opcode } from '../lib/raw-socket.mjs'

let server
before(async () => (server = await startChat()))
after(() => server.stop())

const OK = { status: 'ok', response: {} }
const UNMATCHED = { status: 'error', response: { reason: 'unmatched topic' } }

describe('V2', () => {
  it('join, reply, broadcast, leave and close are arrays of five', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    socket.send(['3', '3', topic, 'phx_join', {}])
    assert.deepEqual(await socket.receive(), ['3', '3', topic, 'phx_reply', OK])
    socket.send(['3', '4', topic, 'new_msg', { body: 'hi' }])
    assert.deepEqual(await socket.receive(), [null, null, topic, 'new_msg', { body: 'hi' }])
    socket.send(['3', '5', topic, 'phx_leave', {}])
    assert.deepEqual(await socket.receive(), ['3', '5', topic, 'phx_reply', OK])
    assert.deepEqual(await socket.receive(), ['3', '3', topic, 'phx_close', {}])
  })

  it('a crash and a stop carry the join_ref as their ref', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    socket.send(['1', '2', topic, 'crash', {}])
    assert.deepEqual(await socket.receive(), ['1', '1', topic, 'phx_error', { reason: 'channel_crash' }])
    await socket.join(topic, {}, '3')
    socket.send(['3', '4', topic, 'stop', {}])
    assert.deepEqual(await socket.receive(), ['3', '3', topic, 'phx_close', {}])
    assert.deepEqual(await socket.request(['3', '5', topic, 'ping', {}]), [null, '5', topic, 'phx_reply', UNMATCHED])
  })

  it('a second join is answered before the first is closed', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    socket.send(['2', '2', topic, 'phx_join', {}])
    assert.deepEqual(await socket.receive(), ['2', '2', topic, 'phx_reply', OK])
    assert.deepEqual(await socket.receive(), ['1', '1', topic, 'phx_close', {}])
    socket.send(['2', '3', topic, 'new_msg', { once: true }])
    assert.deepEqual(await socket.receive(), [null, null, topic, 'new_msg', { once: true }])
    socket.send(['2', '4', topic, 'ping', {}])
    assert.deepEqual(await socket.receive(), ['2', '4', topic, 'phx_reply', OK], 'no second copy before it')
  })

  it('a second join that is rejected still ends the first', async (t) => {
    const topic = freshTopic('presence')
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, { user: 'alice' }, '1')
    const lifecycle = ([, , , event]) => event === 'phx_reply' || event === 'phx_close'
    socket.send(['2', '2', topic, 'phx_join', {}])
    const refused = { status: 'error', response: { reason: 'no user' } }
    assert.deepEqual(await socket.receive(lifecycle), ['2', '2', topic, 'phx_reply', refused])
    assert.deepEqual(await socket.receive(lifecycle), ['1', '1', topic, 'phx_close', {}])
    assert.deepEqual(await socket.request(['1', '3', topic, 'away', {}]), [null, '3', topic, 'phx_reply', UNMATCHED])
  })

  it('a rejected join leaves no state behind', async (t) => {
    const topic = freshTopic('presence')
    const socket = await RawWebSocket.open(t, server)
    socket.send(['1', '1', topic, 'phx_join', {}])
    const refused = { status: 'error', response: { reason: 'no user' } }
    assert.deepEqual(await socket.receive(), ['1', '1', topic, 'phx_reply', refused])
    assert.deepEqual(await socket.request(['1', '2', topic, 'away', {}]), [null, '2', topic, 'phx_reply', UNMATCHED])
  })

  it('a join without a matching channel gets an error without a join_ref', async (t) => {
    const socket = await RawWebSocket.open(t, server)
    for (const topic of ['elsewhere', 'room:1', 'rooms', '', 'phoenix', 'ROOMS:1']) {
      assert.deepEqual(await socket.request(['9', '9', topic, 'phx_join', {}]), [null, '9', topic, 'phx_reply', UNMATCHED])
    }
  })

  it('a leave of a topic that is not joined succeeds', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    assert.deepEqual(await socket.request(['8', '9', topic, 'phx_leave', {}]), ['8', '9', topic, 'phx_reply', OK])
  })

  it('any other event on a topic that is not joined gets an error without a join_ref', async (t) => {
    const socket = await RawWebSocket.open(t, server)
    for (const event of ['ping', 'new_msg', 'phx_close', 'heartbeat', '']) {
      const topic = freshTopic()
      assert.deepEqual(await socket.request(['8', '9', topic, event, {}]), [null, '9', topic, 'phx_reply', UNMATCHED])
    }
    assert.deepEqual(await socket.request([null, '1', 'phoenix', 'other', {}]), [null, '1', 'phoenix', 'phx_reply', UNMATCHED])
  })

  it('a heartbeat with any payload gets a reply without a join_ref', async (t) => {
    const socket = await RawWebSocket.open(t, server)
    const answer = (ref) => [null, ref, 'phoenix', 'phx_reply', OK]
    let ref = 0
    for (const payload of [{}, null, 'x', 7, [1, [2]], { a: { b: 1 } }]) {
      assert.deepEqual(await socket.request([null, `${++ref}`, 'phoenix', 'heartbeat', payload]), answer(`${ref}`))
    }
    assert.deepEqual(await socket.request(['join', 'beat', 'phoenix', 'heartbeat', {}]), answer('beat'))
  })

  it('replies repeat a ref of any JSON type', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    for (const ref of ['x', '', 7, -1.5, 0, true, false, 'é"\\', [1, 'a'], { a: 1 }]) {
      socket.send(['1', ref, topic, 'ping', { ref }])
      assert.deepEqual(await socket.receive(), ['1', ref, topic, 'phx_reply', { status: 'ok', response: { ref } }])
    }
  })

  it('a payload may be any JSON value, falsy ones included', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    for (const payload of [null, false, 0, '', [], {}, [null], { a: null }]) {
      socket.send(['1', '2', topic, 'ping', payload])
      assert.deepEqual(await socket.receive(), ['1', '2', topic, 'phx_reply', { status: 'ok', response: payload }])
    }
  })

  it('a payload is returned byte for byte, numbers included', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    const payload = '{"big":123456789012345678901234567890,"e":1E+2,"s":"\\u00fc\\/","twice":1,"twice":2}'
    socket.text(`["1","2","${topic}","ping",${payload}]`)
    const answer = await socket.messages.next()
    assert.ok(answer.includes(payload), answer)
  })

  it('a broadcast of a value other than an object crashes the channel', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    for (const payload of ['text', 5, null, [1]]) {
      await socket.join(topic, {}, '1')
      socket.send(['1', '2', topic, 'new_msg', payload])
      assert.deepEqual(await socket.receive(), ['1', '1', topic, 'phx_error', { reason: 'channel_crash' }])
    }
  })

  it('a message is dropped when its join_ref belongs to another join', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '5')
    for (const stale of ['4', 5, '5 ', '', ['5']]) {
      socket.send([stale, 'lost', topic, 'ping', {}])
      socket.send([stale, 'lost', topic, 'phx_leave', {}])
    }
    socket.send(['5', 'mine', topic, 'ping', {}])
    socket.send([null, 'none', topic, 'ping', {}])
    assert.deepEqual(await socket.receive(), ['5', 'mine', topic, 'phx_reply', OK])
    assert.deepEqual(await socket.receive(), ['5', 'none', topic, 'phx_reply', OK], 'null is any join')
  })

  it('a join without a join_ref uses its ref in later replies', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    assert.deepEqual(await socket.request([null, '1', topic, 'phx_join', {}]), [null, '1', topic, 'phx_reply', OK])
    assert.deepEqual(await socket.request([null, '2', topic, 'ping', {}]), ['1', '2', topic, 'phx_reply', OK])
  })

  it('a push without a ref is handled and gets no reply', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    socket.send(['1', null, topic, 'ping', {}])
    socket.send(['1', '2', topic, 'ping', {}])
    assert.deepEqual(await socket.receive(), ['1', '2', topic, 'phx_reply', OK])
  })

  it('elements after the fifth are ignored', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    socket.send(['1', '1', topic, 'phx_join', {}, 'more', { and: 'more' }])
    assert.deepEqual(await socket.receive(), ['1', '1', topic, 'phx_reply', OK])
  })

  it('a message may come in fragments, with pings between them', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    const text = Buffer.from(JSON.stringify(['1', '1', topic, 'phx_join', { ü: '🔥' }]))
    socket.write(frame(opcode.text, text.subarray(0, 10), { isFinal: false }))
    socket.write(frame(opcode.ping, 'are you there?'))
    for (let at = 10; at < text.length - 1; at++) {
      socket.write(frame(opcode.continuation, text.subarray(at, at + 1), { isFinal: false }))
    }
    socket.write(frame(opcode.continuation, text.subarray(-1)))
    assert.deepEqual(await socket.receive(), ['1', '1', topic, 'phx_reply', OK])
  })

  it('a frame may come byte by byte', async (t) => {
    const socket = await RawWebSocket.open(t, server)
    for (const byte of frame(opcode.text, JSON.stringify([null, '1', 'phoenix', 'heartbeat', {}]))) {
      socket.write(Buffer.from([byte]))
    }
    assert.deepEqual(await socket.receive(), [null, '1', 'phoenix', 'phx_reply', OK])
  })

  it('a close is answered with its own code', async (t) => {
    for (const code of [1000, 1001, 4001]) {
      const socket = await RawWebSocket.open(t, server)
      socket.write(frame(opcode.close, Buffer.from([code >> 8, code & 255])))
      assert.equal((await socket.closed()).code, code)
    }
  })
})

describe('V1', () => {
  const open = (t) => RawWebSocket.open(t, server, { query: 'vsn=1.0.0' })
  const nextMessage = async (socket) => JSON.parse(await socket.messages.next())

  it('join, reply, broadcast, leave and close are objects of four', async (t) => {
    const topic = freshTopic()
    const socket = await open(t)
    socket.send({ topic, event: 'phx_join', payload: {}, ref: '3', join_ref: '3' })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'phx_reply', payload: OK, ref: '3' })
    socket.send({ topic, event: 'new_msg', payload: { body: 'hi' }, ref: '4' })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'new_msg', payload: { body: 'hi' }, ref: null })
    socket.send({ topic, event: 'stop', payload: {}, ref: '5' })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'phx_close', payload: {}, ref: '3' })
    socket.send({ topic, event: 'phx_join', payload: {}, ref: '6', join_ref: '6' })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'phx_reply', payload: OK, ref: '6' })
    socket.send({ topic, event: 'phx_leave', payload: {}, ref: '7' })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'phx_reply', payload: OK, ref: '7' })
  })

  it('a leave is answered by its reply alone, since a close could be taken for that of the next join', async (t) => {
    const topic = freshTopic()
    const socket = await open(t)
    socket.send({ topic, event: 'phx_join', payload: {}, ref: '1' })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'phx_reply', payload: OK, ref: '1' })
    socket.send({ topic, event: 'phx_leave', payload: {}, ref: '2' })
    socket.send({ topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '3' })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'phx_reply', payload: OK, ref: '2' })
    assert.deepEqual(await nextMessage(socket), { topic: 'phoenix', event: 'phx_reply', payload: OK, ref: '3' })
  })

  it('a crash carries the ref of the join', async (t) => {
    const topic = freshTopic()
    const socket = await open(t)
    socket.send({ topic, event: 'phx_join', payload: {}, ref: 1 })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'phx_reply', payload: OK, ref: 1 })
    socket.send({ topic, event: 'crash', payload: {}, ref: 2 })
    assert.deepEqual(await nextMessage(socket), { topic, event: 'phx_error', payload: { reason: 'channel_crash' }, ref: 1 })
  })

  it('is the default for a client without a vsn, and accepts binary frames', async (t) => {
    const socket = await RawWebSocket.open(t, server, { query: '' })
    socket.binary(JSON.stringify({ topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '1' }))
    assert.deepEqual(await nextMessage(socket), { topic: 'phoenix', event: 'phx_reply', payload: OK, ref: '1' })
  })

  it('a missing key closes the socket with 1011', async (t) => {
    const whole = { topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '1' }
    for (const key of Object.keys(whole)) {
      const socket = await open(t)
      socket.send({ ...whole, [key]: undefined })
      assert.equal((await socket.closed()).code, 1011, `without ${key}`)
    }
  })
})
