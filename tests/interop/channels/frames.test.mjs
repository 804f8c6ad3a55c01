// The frames themselves, where no client library shows or sends them.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { freshTopic } from '../lib/test-client.mjs'
import { startChat } from '../lib/server.mjs'
import { RawWebSocket } from '../lib/raw-socket.mjs'

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

  it('a broadcast of a value other than an object crashes the channel', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    for (const payload of ['text', 5, null, [1]]) {
      await socket.join(topic, {}, '1')
      socket.send(['1', '2', topic, 'new_msg', payload])
      assert.deepEqual(await socket.receive(), ['1', '1', topic, 'phx_error', { reason: 'channel_crash' }])
    }
  })

  it('a push without a ref is handled and gets no reply', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    socket.send(['1', null, topic, 'ping', {}])
    socket.send(['1', '2', topic, 'ping', {}])
    assert.deepEqual(await socket.receive(), ['1', '2', topic, 'phx_reply', OK])
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
})
