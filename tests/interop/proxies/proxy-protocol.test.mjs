// Real proxies name their clients in PROXY headers of both versions, before TLS and without it.

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import net from 'node:net'
import { userInfo } from 'node:os'
import { describe, it } from 'node:test'

import { certify } from '../lib/certificate.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { APP, PROXY_PROTOCOL_HOST, startWith } from '../lib/proxies.mjs'
import { openTcp, readResponse, request, upgradeHeaders } from '../lib/raw-socket.mjs'
import { startWatchfire } from '../lib/server.mjs'

const STREAM_MODULE = '/usr/lib/nginx/modules/ngx_stream_module.so'

const haproxy = (https, server, sending) => `
  defaults
    mode tcp
    timeout connect 5s
    timeout client 3m
    timeout server 3m
  frontend front
    bind 127.0.0.1:${https}
    default_backend back
  backend back
    server one ${server} ${sending}
`

const nginx = (https, server) => `
  load_module ${STREAM_MODULE};
  daemon off; worker_processes 1; user ${userInfo().username}; pid nginx.pid; error_log stderr;
  events { worker_connections 1024; }
  stream { server { listen 127.0.0.1:${https}; proxy_pass ${server}; proxy_protocol on; } }`

/**
 * Ways in which a proxy sends the header, and the proxy's configuration.
 * @type {Record<string, [string, (https: number, server: string) => string]>}
 */
const ways = {
  'HAProxy, version 1': ['haproxy', (https, server) => haproxy(https, server, 'send-proxy')],
  'HAProxy, version 2': ['haproxy', (https, server) => haproxy(https, server, 'send-proxy-v2')],
  'HAProxy, version 2 with additional values': [
    'haproxy',
    (https, server) => haproxy(https, server, 'send-proxy-v2 proxy-v2-options crc32c,unique-id,authority'),
  ],
  'nginx, version 1': ['nginx', nginx],
}

/** Starts a server behind a proxy; with several processes, and with TLS in the server. */
async function start(t, [kind, configuration], { processes = 1, settings = {}, isTls = false }) {
  const folder = newFolder(t)
  const { cert, key } = certify(folder, [APP])
  const server = await startWatchfire({
    processes,
    hosts: ['127.0.0.1', PROXY_PROTOCOL_HOST],
    settings: {
      'server.drain_period': '100ms',
      'server.proxy_protocol': `${PROXY_PROTOCOL_HOST}:0`,
      'server.trusted_proxies': '127.0.0.1/32',
      'limits.loopback_limited': 'true',
      ...(isTls ? { 'tls.cert': cert, 'tls.key': key } : {}),
      ...settings,
    },
  })
  t.after(() => server.stop())
  const [https] = await listeningPorts(1)
  const text = configuration(https, `${PROXY_PROTOCOL_HOST}:${server.port}`)
  const proxy = await startWith(kind, text, https, readFileSync(cert, 'utf8'))
  t.after(() => proxy.stop())
  return { server, from: (address) => (isTls ? proxy.seenFrom(address) : proxy.plainFrom(address)) }
}

const statusOf = async (t, from, headers = {}) => {
  const path = '/socket/websocket?vsn=2.0.0'
  return (await request(t, from, { path, headers: { ...upgradeHeaders(), ...headers } })).status
}

for (const [name, way] of Object.entries(ways)) {
  const skip = name.startsWith('nginx') && !existsSync(STREAM_MODULE) && 'nginx has no stream module; `make tools` installs it'
  describe(name, { skip }, () => {
    for (const isTls of [false, true]) {
      it(`names each client, ${isTls ? 'before TLS' : 'without TLS'}, whatever the client says about itself`, async (t) => {
        const { from } = await start(t, way, { isTls, settings: { 'limits.sockets_per_address_max': '2' } })
        const [one, other] = [from('127.0.0.9'), from('127.0.0.8')]
        assert.deepEqual([await statusOf(t, one), await statusOf(t, one)], [101, 101])
        for (const claim of [{}, { 'X-Forwarded-For': '198.51.100.7' }, { Forwarded: 'for=198.51.100.7' }]) {
          assert.equal(await statusOf(t, one, claim), 429, JSON.stringify(claim))
        }
        assert.equal(await statusOf(t, other), 101)
      })
    }

    it('names each client to several processes, between which connections move', async (t) => {
      const settings = { 'limits.sockets_per_address_max': '4' }
      const { from } = await start(t, way, { processes: 3, settings })
      const statuses = []
      for (let n = 0; n < 12; n++) statuses.push(await statusOf(t, from('127.0.0.9')))
      assert.deepEqual(statuses, [...Array(4).fill(101), ...Array(8).fill(429)])
      assert.equal(await statusOf(t, from('127.0.0.8')), 101)
    })
  })
}

describe('a server that requires a PROXY header', () => {
  it('closes connections without one and from other addresses, and says so once', async (t) => {
    const { server, from } = await start(t, ways['HAProxy, version 2'], {})
    const at = (localAddress) => ({ dial: () => net.connect({ host: PROXY_PROTOCOL_HOST, port: server.port, localAddress }) })
    for (const localAddress of ['127.0.0.1', '127.0.0.9', '127.0.0.1']) {
      const socket = await openTcp(t, at(localAddress))
      socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
      await assert.rejects(readResponse(socket), /the connection ended before a response/)
    }
    const count = (reason) => server.metric('watchfire_refusals_total', `reason="${reason}"`)
    await waitUntil(async () => (await count('proxy_header')) === 2 && (await count('proxy_untrusted')) === 1, 'all are counted')
    assert.equal(server.stderr.split('\n').filter((line) => line.includes('server.proxy_protocol')).length, 1, server.stderr)
    assert.equal(await statusOf(t, from('127.0.0.9')), 101)
  })
})

describe('a server that listens on loopback only', () => {
  const visit = (t, server, address) =>
    request(t, server, { path: '/healthz', headers: { 'X-Forwarded-For': address, Connection: 'close' } })
  const hints = (server) => server.stderr.split('\n').filter((line) => line.includes('cannot reach STUN'))

  it('says once that browsers behind a proxy cannot reach STUN', async (t) => {
    const server = await startWatchfire({ processes: 1 })
    t.after(() => server.stop())
    await visit(t, server, '127.0.0.9')
    assert.deepEqual(hints(server), [])
    for (const address of ['192.0.2.1', '192.0.2.2']) await visit(t, server, address)
    await waitUntil(() => hints(server).length > 0, 'the hint is logged')
    assert.match(hints(server)[0], /stun\.listen/)
    await visit(t, server, '192.0.2.3')
    assert.equal(hints(server).length, 1)
  })

  it('says nothing if STUN is announced', async (t) => {
    const server = await startWatchfire({ processes: 1, settings: { 'stun.announce': 'stun.example.org:3478' } })
    t.after(() => server.stop())
    await visit(t, server, '192.0.2.1')
    await visit(t, server, '192.0.2.2')
    assert.deepEqual(hints(server), [])
  })
})
