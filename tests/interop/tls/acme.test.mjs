// Certificates from a real ACME server.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import tls from 'node:tls'

import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { buildPebble, Pebble, whyNoPebble } from '../lib/pebble.mjs'
import { RawWebSocket } from '../lib/raw-socket.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { get, handshake, waitForCertificate } from './tls-client.mjs'

/** An ACME server, the ports of our server, and a folder for its state. */
async function setUp(t, options = {}) {
  const [port, http] = await listeningPorts(2)
  const pebble = await Pebble.create({ tls: port, http, ...options })
  t.after(() => pebble.stop())
  const root = newFolder(t)
  return { port, http, pebble, stateDir: path.join(root, 'state') }
}

/** Starts our server with certificates for these domains. */
async function start(t, { port, http, pebble, stateDir }, domains, { challenge = 'tls-alpn-01', processes = 1 } = {}) {
  const settings = {
    'tls.acme.domains': domains.join(','),
    'tls.acme.contact': 'mailto:admin@a.example',
    'tls.acme.directory_url': pebble.directory,
    'tls.acme.state_dir': stateDir,
    'tls.acme.ca_file': pebble.caFile,
    'tls.acme.challenge': challenge,
    'tls.redirect_listen': `127.0.0.1:${http}`,
    'server.drain_period': '0s',
    'stun.enabled': 'false',
  }
  const server = await startWatchfire({ port, settings, processes })
  t.after(() => server.kill())
  return server
}

function waitForLog(server, text) {
  return waitUntil(() => server.stderr.includes(text), `the log says ${JSON.stringify(text)}: ${server.stderr}`)
}

/** Waits until the server presents a certificate of the ACME server for that name. */
async function trusted({ port, pebble }, server, name, accept, ms) {
  try {
    return await waitForCertificate(port, name, { ca: pebble.root }, accept, ms)
  } catch (error) {
    throw new Error(`${error.message}\n${server.stderr}\n${pebble.log}`)
  }
}

/** All files below a folder that others than their owner can read. */
function readableForOthers(folder) {
  const files = readdirSync(folder, { recursive: true }).map((name) => path.join(folder, name))
  return files.filter((file) => statSync(file).isFile() && statSync(file).mode & 0o077)
}

describe('ACME', { skip: whyNoPebble, concurrency: 4 }, () => {
  before(buildPebble)

  test('the first certificate comes with TLS-ALPN-01, and every process uses it', async (t) => {
    const setup = await setUp(t, { isStopped: true })
    const server = await start(t, setup, ['a.example', 'www.a.example'], { processes: 2 })
    await waitForLog(server, 'there is no certificate from the ACME server yet')
    await assert.rejects(handshake(setup.port, 'a.example'), /handshake failure|alert/)

    await setup.pebble.start()
    process.kill(server.pid, 'SIGHUP')
    const { names } = await trusted(setup, server, 'www.a.example')
    assert.equal(names, 'DNS:a.example, DNS:www.a.example')
    assert.deepEqual(readableForOthers(setup.stateDir), [])
    await waitUntil(() => readdirSync(path.join(setup.stateDir, 'challenges')).length === 0, 'the answers are removed')
    const offer = { ALPNProtocols: ['acme-tls/1'] }
    await assert.rejects(handshake(setup.port, 'a.example', offer), /alert/, 'no challenge is pending any more')
    await server.stop()
  })

  test('the first certificate comes with HTTP-01, and other requests are redirected', async (t) => {
    const setup = await setUp(t)
    const { port, http } = setup
    const server = await start(t, setup, ['a.example'], { challenge: 'http-01', processes: 2 })
    await trusted(setup, server, 'a.example')
    const { status, headers } = await get(http, 'a.example', '/x?y=z')
    assert.deepEqual([status, headers.location], [308, `https://a.example:${port}/x?y=z`])
    assert.equal((await get(http, 'b.example', '/')).status, 421)
    assert.equal((await get(http, 'a.example', '/.well-known/acme-challenge/unknown')).status, 404)
    assert.equal((await get(http, 'a.example', '/.well-known/acme-challenge/..%2faccount.json')).status, 404)
    await server.stop()
  })

  test('a certificate is renewed before its end, and open connections continue', async (t) => {
    const setup = await setUp(t, { seconds: 18 })
    const server = await start(t, setup, ['a.example'], { processes: 2 })
    const ca = setup.pebble.root
    const first = await trusted(setup, server, 'a.example')
    const dial = () => tls.connect({ host: '127.0.0.1', port: setup.port, servername: 'a.example', ca })
    const socket = await RawWebSocket.open(t, { host: `a.example:${setup.port}`, dial })

    const second = await trusted(setup, server, 'a.example', ({ fingerprint }) => fingerprint !== first.fingerprint)
    assert.ok(first.end > Date.now(), 'the first one is still valid')
    assert.ok(second.end > first.end)
    const [, , , event] = await socket.request([null, '1', 'phoenix', 'heartbeat', {}])
    assert.equal(event, 'phx_reply')
    await server.stop()
  })

  test('a certificate is renewed early when the ACME server suggests it', async (t) => {
    const setup = await setUp(t)
    const server = await start(t, setup, ['a.example'])
    const first = await trusted(setup, server, 'a.example')
    await server.stop()
    const pem = readFileSync(path.join(setup.stateDir, 'certificate.pem'), 'utf8')
    const [certificate] = /-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/s.exec(pem)
    const before = (seconds) => new Date(Date.now() - seconds * 1000)
    await setup.pebble.suggestRenewal(certificate, before(20), before(10))

    // The server asks at its start, and then every 6 hours.
    const again = await start(t, setup, ['a.example'])
    await trusted(setup, again, 'a.example', ({ fingerprint }) => fingerprint !== first.fingerprint)
    await again.stop()
  })

  test('after an order that became invalid, SIGHUP makes a new one', async (t) => {
    const setup = await setUp(t)
    await setup.pebble.resolveTo('a.example', '127.0.0.9')
    const server = await start(t, setup, ['a.example'])
    await waitForLog(server, 'the ACME server refused the order')
    assert.match(
      server.stderr,
      /cannot obtain a certificate for a\.example: .*check that the DNS entry of each domain.*next attempt is in \d+m/s,
    )
    const orders = () => setup.pebble.log.match(/Added order/g)?.length ?? 0
    assert.equal(orders(), 1)

    // A server that restarts in a loop does not order in a loop.
    await server.stop()
    await setup.pebble.resolveTo('a.example', '127.0.0.1')
    const again = await start(t, setup, ['a.example'])
    await waitForLog(again, 'there is no certificate from the ACME server yet')
    await assert.rejects(handshake(setup.port, 'a.example'))
    assert.equal(orders(), 1)

    process.kill(again.pid, 'SIGHUP')
    await trusted(setup, again, 'a.example')
    assert.equal(orders(), 2)
    await again.stop()
  })

  test('while the ACME server is down, the old certificate is used; a new server registers again', async (t) => {
    const setup = await setUp(t)
    const server = await start(t, setup, ['a.example'])
    const first = await trusted(setup, server, 'a.example')
    await server.stop()
    await setup.pebble.pause()

    // With another domain, a new certificate is due at once.
    const again = await start(t, setup, ['a.example', 'b.example'])
    await waitForLog(again, 'the ACME server is not available')
    assert.match(again.stderr, /keeps using the old certificate/)
    assert.equal((await handshake(setup.port, 'a.example')).fingerprint, first.fingerprint)

    // It has lost all accounts, as Pebble keeps them in memory.
    await setup.pebble.start()
    const second = await trusted(setup, again, 'b.example', undefined, 40_000)
    assert.equal(second.names, 'DNS:a.example, DNS:b.example')
    assert.match(again.stderr, /the ACME server has lost the account; registering again/)
    await again.stop()
  })

  test('while the state directory is full, the old certificate is used and nothing is ordered', async (t) => {
    const setup = await setUp(t)
    const disk = newFolder()
    const isRoot = process.getuid() === 0
    if (isRoot) {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', disk])
      t.after(() => execFileSync('umount', ['-l', disk]))
    }
    setup.stateDir = path.join(disk, 'state')
    const server = await start(t, setup, ['a.example'])
    const first = await trusted(setup, server, 'a.example')
    await server.stop()
    const orders = setup.pebble.log.match(/Added order/g).length

    // Root writes in every folder, but not on a full disk. Other users may not mount one.
    if (isRoot) {
      assert.throws(() => writeFileSync(path.join(disk, 'filler'), Buffer.alloc(1 << 20)), { code: 'ENOSPC' })
    } else {
      chmodSync(setup.stateDir, 0o500)
    }
    const certificate = () => readFileSync(path.join(setup.stateDir, 'certificate.pem'), 'utf8')
    const before = certificate()
    const again = await start(t, setup, ['a.example', 'b.example'])
    await waitForLog(again, 'cannot write in tls.acme.state_dir')
    assert.match(again.stderr, isRoot ? /No space left on device.*free space there/ : /Permission denied.*make it writable/)
    assert.equal((await handshake(setup.port, 'a.example')).fingerprint, first.fingerprint)
    assert.equal(certificate(), before)
    assert.equal(setup.pebble.log.match(/Added order/g).length, orders)

    if (isRoot) rmSync(path.join(disk, 'filler'))
    else chmodSync(setup.stateDir, 0o700)
    process.kill(again.pid, 'SIGHUP')
    await trusted(setup, again, 'b.example')
    await again.stop()
  })
})
