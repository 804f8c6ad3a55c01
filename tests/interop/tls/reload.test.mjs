// New certificate files in a running server.

import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import tls from 'node:tls'

import { certify } from '../lib/certificate.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { RawWebSocket } from '../lib/raw-socket.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { handshake, waitForCertificate } from './tls-client.mjs'

for (const processes of [1, 2]) {
  test(`${processes} processes: a new pair is used without closing a connection, and an invalid one is reported once`, async (t) => {
    const folder = newFolder(t)
    // The link to the current pair is swapped, as certbot and Kubernetes do.
    const pairs = ['first', 'second', 'third'].map((name) => {
      mkdirSync(path.join(folder, name))
      return certify(path.join(folder, name), ['localhost'])
    })
    const use = (name) => {
      symlinkSync(name, path.join(folder, 'next'))
      renameSync(path.join(folder, 'next'), path.join(folder, 'live'))
    }
    use('first')
    const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, 'live', name))
    const settings = { 'tls.cert': cert, 'tls.key': key, 'server.drain_period': '0s', 'stun.enabled': 'false' }
    const server = await startWatchfire({ settings, processes })
    t.after(() => server.kill())
    const trust = (pair) => ({ ca: readFileSync(pair.cert) })
    const first = await waitForCertificate(server.port, 'localhost', trust(pairs[0]))
    // The tests' certificates are valid for two days.
    assert.match(server.stderr, /the TLS certificate expires within 7 days; renew tls\.cert and tls\.key/)
    const dial = () => tls.connect({ host: '127.0.0.1', port: server.port, servername: 'localhost', ...trust(pairs[0]) })
    const socket = await RawWebSocket.open(t, { host: `localhost:${server.port}`, dial })

    use('second')
    const second = await waitForCertificate(server.port, 'localhost', trust(pairs[1]))
    assert.notEqual(second.fingerprint, first.fingerprint)
    const loads = () => server.stderr.match(/loaded a new TLS certificate/g)?.length ?? 0
    await waitUntil(() => loads() === processes, 'each process has the new pair')

    const errors = () => server.stderr.match(/cannot load the new TLS certificate/g)?.length ?? 0
    copyFileSync(pairs[0].key, pairs[1].key)
    await waitUntil(() => errors() === processes, 'each process reports the pair that does not match')
    assert.match(
      server.stderr,
      /cannot use the certificate .*cert\.pem with the key .*key\.pem: .*write a certificate and its own key; the server keeps using the old one/,
    )
    assert.equal((await handshake(server.port, 'localhost')).fingerprint, second.fingerprint)

    use('third')
    process.kill(server.pid, 'SIGHUP')
    await waitForCertificate(server.port, 'localhost', trust(pairs[2]))
    await waitUntil(() => server.stderr.match(/SIGHUP: loaded the TLS certificate/g)?.length === processes, 'each process reports')
    assert.equal(errors(), processes)

    const [, , , event] = await socket.request([null, '1', 'phoenix', 'heartbeat', {}])
    assert.equal(event, 'phx_reply')
    await server.stop()
  })
}
