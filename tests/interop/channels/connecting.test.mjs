// The connections that the server accepts, by version, origin and subprotocol.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, reply, variants, variantsWhere } from '../lib/test-client.mjs'
import { startChat, startWatchfire } from '../lib/server.mjs'
import { acceptFor, request, upgradeHeaders } from '../lib/raw-socket.mjs'

let server
before(async () => (server = await startChat()))
after(() => server.stop())

const upgrade = (t, query, headers) =>
  request(t, server, { path: `/socket/websocket?${query}`, headers: { ...upgradeHeaders(), ...headers } })

const poll = async (query, headers) => {
  const response = await fetch(server.http(`/socket/longpoll?${query}`), { headers })
  assert.equal(response.status, 200)
  return response.json()
}

describe('a stock client', () => {
  for (const variant of variants.filter(({ isPoll }) => !isPoll)) {
    it(`${variant.name} is rejected when the application rejects it`, async (t) => {
      const client = connect(t, server, variant, { params: { deny: '1' } })
      assert.match((await client.errors.next()).message, /403/)
      assert.equal((await client.closed.next()).code, 1006)
    })
  }

  for (const variant of variantsWhere(({ isPoll, library }) => isPoll && library.handlesRejection)) {
    it(`${variant.name} is rejected when the application rejects it`, async (t) => {
      const client = connect(t, server, variant, { params: { deny: '1' } })
      await client.errors.next()
      await client.closed.next()
      assert.equal(client.opened.all.length, 0)
    })
  }

  for (const variant of variants) {
    it(`${variant.name} connects with nested parameters`, async (t) => {
      const params = { user: 'a b&c=d', device: { os: { name: 'ü' } }, empty: '' }
      const channel = await connect(t, server, variant, { params }).join(freshTopic())
      assert.equal((await reply(channel.push('ping', {}))).status, 'ok')
    })
  }

  for (const variant of variantsWhere(({ library }) => library.authenticates)) {
    it(`${variant.name} connects with an auth token`, async (t) => {
      const client = connect(t, server, variant, { authToken: 'secret~~~' })
      const channel = await client.join(freshTopic())
      assert.equal((await reply(channel.push('ping', {}))).status, 'ok')
      if (!variant.isPoll) assert.equal(client.socket.conn.protocol, 'phoenix')
    })
  }
})

it('gets the response of RFC 6455, without a subprotocol when none was requested', async (t) => {
  const sent = upgradeHeaders()
  const { status, headers } = await upgrade(t, 'vsn=2.0.0', sent)
  assert.equal(status, 101)
  assert.equal(headers['sec-websocket-accept'], acceptFor(sent['Sec-WebSocket-Key']))
  assert.equal(headers.upgrade.toLowerCase(), 'websocket')
  assert.equal(headers.connection.toLowerCase(), 'upgrade')
  assert.equal(headers['sec-websocket-protocol'], undefined)
  assert.equal(headers['sec-websocket-extensions'], undefined)
})

it('another version, subprotocol or origin is rejected with 403 on each transport', async (t) => {
  const Origin = 'https://elsewhere.example'
  for (const [query, headers] of [
    ['vsn=3.0.0', {}],
    ['vsn=2.0.0', { Origin }],
  ]) {
    const { status, body } = await upgrade(t, query, headers)
    assert.deepEqual([status, body], [403, ''])
    assert.deepEqual(await poll(query, headers), { status: 403 })
  }
  assert.equal((await upgrade(t, 'vsn=2.0.0', { 'Sec-WebSocket-Protocol': 'other' })).status, 403)
  // A POST tells a page why its WebSocket was refused.
  const post = await fetch(server.http('/socket/longpoll?vsn=2.0.0'), { method: 'POST', headers: { Origin } })
  assert.deepEqual(await post.json(), { status: 403 })
  assert.equal((await poll('vsn=2.0.0', { Origin: server.http('') })).status, 410)
})

it('a refused origin is logged once, with the settings that would allow it', async (t) => {
  // Each process has a log of its own.
  const alone = await startWatchfire({ processes: 1 })
  t.after(() => alone.stop())
  const headers = { ...upgradeHeaders(), Origin: 'https://logged.example' }
  for (let n = 0; n < 2; n++) await request(t, alone, { path: '/socket/websocket?vsn=2.0.0', headers })
  const lines = alone.stderr.split('\n').filter((line) => line.includes('logged.example'))
  assert.equal(lines.length, 1, lines.join('\n'))
  assert.match(lines[0], /WARN.*server\.public_url.*socket\.check_origin/)
})
