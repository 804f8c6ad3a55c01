// Machines that reach NATS with TLS, passwords, client certificates and credentials files.

import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'

import { certify } from '../lib/certificate.mjs'
import { newFolder } from '../lib/folders.mjs'
import { joinAll, startMachines, untilAllSee } from '../lib/machines.mjs'
import { buildNats, startNats, whyNoNats, writeCredentials } from '../lib/nats.mjs'
import { freshTopic } from '../lib/test-client.mjs'

describe('NATS servers that not everyone may use', { skip: whyNoNats }, () => {
  const folder = newFolder()
  before(buildNats)

  /** Starts a NATS server, and stops it when the test ends. */
  const startOne = async (t, more) => {
    const [server] = await startNats(1, more)
    t.after(() => server.kill())
    return server
  }

  /** Asserts that two machines with these URLs and settings are one server. */
  const assertTheyMeet = async (t, url, settings) => {
    const machines = await startMachines([[url], [url]], { more: [settings, settings] })
    t.after(() => Promise.all(machines.map((machine) => machine.stop())))
    await untilAllSee(await joinAll(t, machines, freshTopic('room')), 2, 'both see both')
  }
  const start = (url, settings = {}) => startMachines([[url]], { more: [settings] })

  it('TLS and a password', async (t) => {
    const { cert, key } = certify(folder, ['localhost'])
    const { port } = await startOne(t, ['--tls', '--tlscert', cert, '--tlskey', key, '--user', 'watchfire', '--pass', 'in a test'])
    const trusted = { 'cluster.root_certificates': cert }
    const url = (password) => `tls://watchfire:${encodeURIComponent(password)}@localhost:${port}`
    await assertTheyMeet(t, url('in a test'), trusted)
    await assert.rejects(start(url('a guess'), trusted), /authorization/i)
    await assert.rejects(start(url('in a test')), /certificate/i)
  })

  it('a client certificate', async (t) => {
    const { cert, key } = certify(folder, ['localhost'])
    const { port } = await startOne(t, ['--tlsverify', '--tlscert', cert, '--tlskey', key, '--tlscacert', cert])
    const settings = { 'cluster.root_certificates': cert, 'cluster.client_certificate': cert, 'cluster.client_key': key }
    await assertTheyMeet(t, `tls://localhost:${port}`, settings)
    await assert.rejects(start(`tls://localhost:${port}`, { 'cluster.root_certificates': cert }), /cluster/)
  })

  it('a credentials file', async (t) => {
    const { server, user } = await writeCredentials(folder)
    // Its account has no JetStream, which only histories need.
    const [nats] = await startNats(1, ['-c', server], { jetStream: false })
    t.after(() => nats.kill())
    const { url } = nats
    const rules = '[{ pattern = "room:*", join = "anyone", presence = true }]'
    await assertTheyMeet(t, url, { 'cluster.credentials_file': user, 'channels.rules': rules })
    await assert.rejects(start(url), /authorization/i)
  })
})
