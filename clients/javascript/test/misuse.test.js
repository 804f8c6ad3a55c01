import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Client } from '../dist/index.js'

const URL = 'ws://127.0.0.1:1/socket'

test('a URL that cannot work is refused', () => {
  for (const url of [undefined, '', 'localhost:4000/socket', 'ftp://localhost/socket'])
    assert.throws(() => new Client(url), /is not a URL such as/)
  assert.throws(() => new Client(`${URL}/websocket`), /names a transport; leave out its last part/)
  assert.throws(() => new Client('/socket'), /needs a page/)
})

test('options of a wrong type are refused', () => {
  assert.throws(() => new Client(URL, { getToken: /** @type {any} */ ('a token') }), /getToken is not a function/)
  const client = new Client(URL)
  assert.throws(() => client.channel(''), /its topic is not a text/)
  assert.throws(() => client.channel('news', { last: 0 }), /last is 0, which is not a positive integer/)
  assert.throws(() => client.channel('news').on('phx_error', () => {}), /use onStatus/)
})

test('parameters that belong to the client are refused', async () => {
  const client = new Client(URL)
  await assert.rejects(client.channel('news', { params: { token: 'x' } }).join(), /use the option getToken of the client/)
  await assert.rejects(client.channel('news', { params: () => ({ history: {} }) }).join(), /use the option last of the channel/)
})

test('a message before the join, and a second join, are refused', async (t) => {
  const client = new Client(URL, { onError: () => {} })
  t.after(() => client.disconnect())
  const channel = client.channel('news')
  await assert.rejects(channel.push('note'), /call join\(\) first/)
  const left = assert.rejects(channel.join(), { name: 'RefusedError', reason: 'leave' })
  await assert.rejects(channel.join(), /has joined already/)
  await assert.rejects(client.channel('news').join(), /another channel of this client/)
  channel.leave()
  await left
})
