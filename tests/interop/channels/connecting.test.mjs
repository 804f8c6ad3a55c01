// The connections that the server accepts, by version, origin and subprotocol.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { connect, freshTopic, reply, variants, variantsWhere } from '../lib/test-client.mjs'
import { startChat, startWatchfire } from '../lib/server.mjs'
import { RawWebSocket, acceptFor, readResponse, request, upgradeHeaders } from '../lib/raw-socket.mjs'

let server
before(async () => (server = await startChat()))
after(() => server.stop())

const upgrade = (t, query, headers = {}, to = server) =>
  request(t, to, { path: `/socket/websocket?${query}`, headers: { ...upgradeHeaders(), ...headers } })

const poll = async (query, headers = {}, to = server) => {
  const response = await fetch(to.http(`/socket/longpoll?${query}`), { headers })
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

describe('the version', () => {
  const accepted = ['', 'vsn=1.0.0', 'vsn=1.0.9', 'vsn=2.0.0', 'vsn=2.0.5', 'vsn=2.0.0&']
  const refused = ['vsn=2.1.0', 'vsn=3.0.0', 'vsn=x', 'vsn=', 'vsn=1', 'vsn=2.0', 'vsn[a]=2.0.0', 'vsn=2.0.0.0']
  for (const query of accepted) {
    it(`«${query}» is accepted`, async (t) => {
      assert.equal((await upgrade(t, query)).status, 101)
      assert.equal((await poll(query)).status, 410)
    })
  }
  for (const query of refused) {
    it(`«${query}» is rejected with 403`, async (t) => {
      const { status, body } = await upgrade(t, query)
      assert.deepEqual([status, body], [403, ''])
      assert.deepEqual(await poll(query), { status: 403 })
    })
  }
})

describe('the upgrade', () => {
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

  it('accepts header names in any case, and headers with several values', async (t) => {
    const sent = upgradeHeaders()
    const headers = {
      connection: 'keep-alive, uPgRaDe',
      UPGRADE: 'WebSocket',
      'sec-websocket-VERSION': '13',
      'sec-websocket-key': sent['Sec-WebSocket-Key'],
    }
    const { status } = await request(t, server, { path: '/socket/websocket?vsn=2.0.0', headers })
    assert.equal(status, 101)
  })

  for (const missing of ['Connection', 'Upgrade', 'Sec-WebSocket-Key']) {
    it(`without ${missing} is rejected with 400 and a reason`, async (t) => {
      const { [missing]: _, ...headers } = upgradeHeaders()
      const { status, body } = await request(t, server, { path: '/socket/websocket?vsn=2.0.0', headers })
      assert.equal(status, 400)
      assert.match(body, /^\S.*\n?$/, 'one line')
    })
  }

  it('by another method than GET is rejected with 400', async (t) => {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const headers = { ...upgradeHeaders(), 'Content-Length': '0' }
      const { status } = await request(t, server, { method, path: '/socket/websocket?vsn=2.0.0', headers })
      assert.equal(status, 400, method)
    }
  })

  // RFC 6455, 4.4: the answer names the version of the server.
  it('for another WebSocket version, or none, is rejected with 426, the version of the server and a reason', async (t) => {
    const { 'Sec-WebSocket-Version': _, ...unversioned } = upgradeHeaders()
    for (const headers of [{ ...unversioned, 'Sec-WebSocket-Version': '8' }, unversioned]) {
      const { status, headers: answered, body } = await request(t, server, { path: '/socket/websocket?vsn=2.0.0', headers })
      assert.equal(status, 426)
      assert.equal(answered['sec-websocket-version'], '13')
      assert.match(body, /^\S.*\n?$/, 'one line')
    }
  })

  it('may be followed by frames at once', async (t) => {
    // A client that sends frames before it has read the response, as an HTTP proxy may cause.
    const socket = await RawWebSocket.open(t, server)
    assert.equal((await socket.request([null, '1', 'phoenix', 'heartbeat', {}]))[3], 'phx_reply')
  })

  it('may come on a connection that has served other requests', async (t) => {
    const { socket } = await request(t, server, { path: '/healthz' })
    const head = Object.entries({ Host: 'x', ...upgradeHeaders() }).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\n${head.join('')}\r\n`)
    const { status, rest } = await readResponse(socket)
    assert.equal(status, 101)
    const webSocket = new RawWebSocket(socket, rest)
    assert.equal((await webSocket.request([null, '1', 'phoenix', 'heartbeat', {}]))[3], 'phx_reply')
  })
})

describe('the subprotocol', () => {
  const echoed = async (t, sent) => {
    const { status, headers } = await upgrade(t, 'vsn=2.0.0', { 'Sec-WebSocket-Protocol': sent })
    return [status, headers['sec-websocket-protocol']]
  }

  it('phoenix is echoed, alone or beside a token', async (t) => {
    assert.deepEqual(await echoed(t, 'phoenix'), [101, 'phoenix'])
    assert.deepEqual(await echoed(t, 'phoenix, base64url.bearer.phx.c2VjcmV0'), [101, 'phoenix'])
    assert.deepEqual(await echoed(t, 'other, phoenix'), [101, 'phoenix'])
    assert.deepEqual(await echoed(t, ['other', 'phoenix']), [101, 'phoenix'])
  })

  it('is rejected with 403 when only others are requested', async (t) => {
    assert.deepEqual(await echoed(t, 'other'), [403, undefined])
    assert.deepEqual(await echoed(t, 'Phoenix'), [403, undefined])
  })
})

describe('the origin', () => {
  it('may be absent', async (t) => {
    assert.equal((await upgrade(t, 'vsn=2.0.0')).status, 101)
  })

  it('may be the server’s own', async (t) => {
    const Origin = server.http('')
    assert.equal((await upgrade(t, 'vsn=2.0.0', { Origin })).status, 101)
    assert.equal((await poll('vsn=2.0.0', { Origin })).status, 410)
  })

  it('may have the other scheme, as behind a proxy that terminates TLS', async (t) => {
    const Origin = server.http('').replace('http:', 'https:')
    assert.equal((await upgrade(t, 'vsn=2.0.0', { Origin })).status, 101)
    assert.equal((await poll('vsn=2.0.0', { Origin })).status, 410)
  })

  it('of a POST tells a page why its WebSocket was refused', async () => {
    const post = async (Origin) => {
      const response = await fetch(server.http('/socket/longpoll?vsn=2.0.0'), { method: 'POST', headers: { Origin } })
      return response.json()
    }
    assert.deepEqual(await post('https://elsewhere.example'), { status: 403 })
    assert.deepEqual(await post(server.http('')), { status: 410 })
  })

  const otherOrigins = ['http://elsewhere.example', 'https://127.0.0.1', 'http://127.0.0.1:1', 'http://127.0.0.1', 'null', 'nonsense', '']
  for (const Origin of otherOrigins) {
    it(`«${Origin}» is rejected`, async (t) => {
      const { status, body } = await upgrade(t, 'vsn=2.0.0', { Origin })
      assert.deepEqual([status, body], [403, ''])
      assert.deepEqual(await poll('vsn=2.0.0', { Origin }), { status: 403 })
    })
  }
})

describe('with configured origins, the origin', () => {
  let open
  const settings = { 'socket.check_origin': 'https://app.example,//*.friends.example' }
  before(async () => (open = await startWatchfire({ settings })))
  after(() => open.stop())

  const cases = [
    ['https://app.example', 101],
    ['http://app.example', 403],
    ['https://a.friends.example:8443', 101],
    ['http://friends.example', 101],
    ['http://notfriends.example', 403],
  ]
  for (const [Origin, expected] of cases) {
    it(`«${Origin}» gets ${expected}`, async (t) => {
      assert.equal((await upgrade(t, 'vsn=2.0.0', { Origin }, open)).status, expected)
    })
  }
})

describe('behind a proxy', () => {
  let open
  const settings = {
    'server.public_url': 'https://watch.example',
    'limits.loopback_limited': 'true',
    'limits.sockets_per_address_max': '1',
  }
  // Each process counts sockets per address for itself.
  before(async () => (open = await startWatchfire({ settings, processes: 1 })))
  after(() => open.stop())

  it('a refused origin is logged once, with the settings that would allow it', async (t) => {
    const Origin = 'https://logged.example'
    await upgrade(t, 'vsn=2.0.0', { Origin }, open)
    await upgrade(t, 'vsn=2.0.0', { Origin }, open)
    const lines = open.stderr.split('\n').filter((line) => line.includes('logged.example'))
    assert.equal(lines.length, 1, lines.join('\n'))
    assert.match(lines[0], /WARN.*server\.public_url.*socket\.check_origin/)
  })

  it('the origin is compared with server.public_url', async (t) => {
    const from = { 'X-Forwarded-For': '192.0.2.1' }
    const status = async (Origin, headers) => (await upgrade(t, 'vsn=2.0.0', { Origin, ...headers }, open)).status
    assert.equal(await status('https://watch.example', from), 101)
    assert.equal(await status(open.http(''), from), 403)
    assert.equal(await status('https://other.example', { ...from, 'X-Forwarded-Host': 'other.example' }), 403)
  })

  it('the limit per address counts the address that the proxy names last', async (t) => {
    const status = async (forwarded) => {
      return (await upgrade(t, 'vsn=2.0.0', { 'X-Forwarded-For': forwarded }, open)).status
    }
    assert.equal(await status('192.0.2.7'), 101)
    assert.equal(await status('192.0.2.7'), 429)
    assert.equal(await status('198.51.100.1, 192.0.2.7'), 429)
    assert.equal(await status('192.0.2.8'), 101)
    assert.equal(await status(`${'x,'.repeat(3000)}192.0.2.9`), 101)
  })
})
