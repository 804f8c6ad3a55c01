// Channels by rule, and clients that authenticate with tokens of npm `jose`.

import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { SignJWT, UnsecuredJWT, exportJWK } from 'jose'

import { newFolder } from '../lib/folders.mjs'
import { collectEvents, collectHook, connect, freshTopic, reply, variants, variantsWhere, newestWay } from '../lib/test-client.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { Inbox, waitUntil } from '../lib/deadlines.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { listen } from '../lib/listen.mjs'

const RULES = [
  '{ pattern = "news:*", join = "anyone" }',
  '{ pattern = "orders:*", publish = "clients", presence = true }',
  '{ pattern = "feed:*" }',
]
const SETTINGS = { 'socket.check_origin': 'any', 'channels.rules': `[${RULES.join(', ')}]`, 'auth.leeway': '0s' }
/** The least time between two fetches of a JWK set. */
const RETRY_MS = 10_000

/** Keys as operators have them, by the algorithm of their tokens. */
const KEYS = {
  RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: generateKeyPairSync('ed25519'),
}
const SECRET = new TextEncoder().encode('an HS256 secret of 32 bytes or more')
const pem = (key) => key.export({ type: 'spki', format: 'pem' })

/** @typedef {{ alg?: string, key?: any, kid?: string, expiresIn?: string | number, claims?: object }} TokenOptions */

function tokenOf(user, /** @type {TokenOptions} */ { alg = 'HS256', key = SECRET, kid, expiresIn = '1m', claims = {} } = {}) {
  const channels = { join: ['orders:*', 'feed:*'], publish: ['orders:*'] }
  const token = new SignJWT({ channels, meta: { name: user }, ...claims })
  return token.setProtectedHeader({ alg, kid }).setSubject(user).setIssuedAt().setExpirationTime(expiresIn).sign(key)
}

describe('a server with rules', () => {
  let server
  const folder = newFolder()
  before(async () => {
    const files = Object.entries(KEYS).map(([name, { publicKey }]) => {
      const file = path.join(folder, `${name}.pem`)
      writeFileSync(file, pem(publicKey))
      return file
    })
    const secretFile = path.join(folder, 'secret')
    writeFileSync(secretFile, 'an HS256 secret of 32 bytes or more\n')
    const keys = { 'auth.hs256_secret_file': secretFile, 'auth.public_key_files': files.join(',') }
    server = await startWatchfire({ settings: { ...SETTINGS, ...keys, 'auth.expiry_notice': '2s' } })
  })
  after(() => server.stop())

  for (const [alg, { privateKey }] of Object.entries({ HS256: { privateKey: SECRET }, ...KEYS })) {
    it(`accepts a token of ${alg}`, async (t) => {
      const client = connect(t, server, newestWay, { params: { token: await tokenOf('ada', { alg, key: privateKey }) } })
      await client.join(freshTopic('orders'))
    })
  }

  it('refuses tokens that no key has signed', async (t) => {
    const client = connect(t, server, newestWay)
    const refused = async (token) => (await client.joinRefused(freshTopic('orders'), { token })).response
    const claims = { channels: { join: ['orders:*'] } }
    const unsecured = new UnsecuredJWT(claims).setSubject('ada').setExpirationTime('1m').encode()
    const confused = await tokenOf('ada', { key: new TextEncoder().encode(pem(KEYS.RS256.publicKey)) })
    const other = await tokenOf('ada', { alg: 'EdDSA', key: generateKeyPairSync('ed25519').privateKey })
    for (const token of [unsecured, confused, other, 'text']) assert.deepEqual(await refused(token), { reason: 'token_invalid' })
    const past = Math.floor(Date.now() / 1000) - 1
    assert.deepEqual(await refused(await tokenOf('ada', { expiresIn: past })), { reason: 'token_expired' })
  })

  for (const variant of variants) {
    it(`${variant.name}: subscribers with tokens of their joins see each other and their messages`, async (t) => {
      const topic = freshTopic('orders')
      const join = async (user) => {
        const client = connect(t, server, variant)
        const channel = client.socket.channel(topic, { token: await tokenOf(user) })
        const presence = new Inbox()
        const seen = new variant.library.Presence(channel)
        seen.onSync(() => presence.put(Object.fromEntries(seen.list((key, { metas }) => [key, metas.map(({ name }) => name)]))))
        const notes = collectEvents(channel, 'note')
        assert.equal((await reply(channel.join())).status, 'ok')
        return { channel, presence, notes }
      }
      // The client 1.3 has no `Presence` objects.
      if (variant.library.repeatsJoins) return t.skip('no Presence object')
      const ada = await join('ada')
      const bob = await join('bob')
      const both = (state) => state.ada?.[0] === 'ada' && state.bob?.[0] === 'bob'
      await ada.presence.next(both)
      await bob.presence.next(both)
      assert.deepEqual(await reply(ada.channel.push('note', { n: 1 })), { status: 'ok', response: {} })
      for (const { notes } of [ada, bob]) assert.deepEqual(await notes.next(), { n: 1 })
    })
  }

  for (const variant of variantsWhere(({ library }) => library.authenticates)) {
    it(`${variant.name} connects with a token as authToken, and is refused with an invalid one`, async (t) => {
      const client = connect(t, server, variant, { authToken: await tokenOf('ada') })
      await client.join(freshTopic('orders'))
      const refused = connect(t, server, variant, { authToken: 'text' })
      await refused.errors.next()
      assert.equal(refused.opened.all.length, 0)
    })
  }

  it('a client that was refused connects once its parameters have a valid token', async (t) => {
    let token = 'text'
    const client = connect(t, server, newestWay, { params: () => ({ token }) })
    assert.match((await client.errors.next()).message, /403/)
    token = await tokenOf('ada')
    await client.opened.next()
    await client.join(freshTopic('orders'))
  })

  it('long poll: a client connects with a token among its parameters, and its session goes on', async (t) => {
    const variant = variants.find(({ library, isPoll }) => library === newest && isPoll)
    const client = connect(t, server, variant, { params: { token: await tokenOf('ada') } })
    const channel = await client.join(freshTopic('orders'))
    for (let n = 0; n < 3; n++) assert.equal((await reply(channel.push('note', { n }))).status, 'ok')
    assert.equal(client.opened.all.length, 1)
  })

  it('a channel is closed at the end of its token, and the client does not rejoin', async (t) => {
    const client = connect(t, server, newestWay)
    const topic = freshTopic('orders')
    const channel = client.socket.channel(topic, { token: await tokenOf('ada', { expiresIn: '3s' }) })
    const [expiring, expired, closed] = [
      collectEvents(channel, 'token_expiring'),
      collectEvents(channel, 'token_expired'),
      collectHook(channel, 'onClose'),
    ]
    assert.equal((await reply(channel.join())).status, 'ok')
    const { expires_in: seconds } = await expiring.next()
    assert.ok(seconds <= 2, `${seconds} seconds`)
    assert.deepEqual(await expired.next(), { reason: 'token_expired' })
    await closed.next()
    // A new channel with a fresh token takes the place of the closed one.
    await client.join(topic, { token: await tokenOf('ada') })
    assert.deepEqual(client.joinsSent, [topic, topic])
  })
})

describe('a server with a JWK set', () => {
  let keys
  let server
  const set = { keys: [] }
  let requests = 0
  before(async () => {
    keys = http.createServer((_, response) => {
      requests += 1
      response.end(JSON.stringify(set))
    })
    const port = await listen(keys)
    await publish({ first: KEYS.RS256 })
    const url = `http://127.0.0.1:${port}/jwks.json`
    server = await startWatchfire({ settings: { ...SETTINGS, 'auth.jwks_url': url } })
  })
  after(async () => {
    await server.stop()
    keys.close()
  })

  /** Replaces the keys of the set. */
  async function publish(keys) {
    const jwks = Object.entries(keys).map(async ([kid, { publicKey }]) => ({ ...(await exportJWK(publicKey)), kid, use: 'sig' }))
    set.keys = await Promise.all(jwks)
  }

  it('a stock client whose token has a new key joins after the server has fetched the set', async (t) => {
    const join = async (kid, alg) => {
      const client = connect(t, server, newestWay)
      const channel = client.socket.channel(freshTopic('orders'), { token: await tokenOf('ada', { alg, kid, key: KEYS[alg].privateKey }) })
      // The client repeats a refused join by itself.
      const joined = new Promise((resolve) => channel.join().receive('ok', resolve))
      await joined
    }
    await join('first', 'RS256')
    // The server fetches the set again when its last fetch was 10 seconds ago.
    await publish({ second: KEYS.ES256, third: KEYS.EdDSA })
    await join('second', 'ES256')
    await join('third', 'EdDSA')
  })

  it('tokens with invented keys cause few fetches', async (t) => {
    const client = connect(t, server, newestWay)
    const before = requests
    const began = performance.now()
    for (let n = 0; n < 30; n++) {
      const token = await tokenOf('ada', { alg: 'EdDSA', kid: `invented-${n}`, key: KEYS.EdDSA.privateKey })
      assert.deepEqual((await client.joinRefused(freshTopic('orders'), { token })).response, { reason: 'token_invalid' })
    }
    await waitUntil(() => requests > before, 'the server fetches the set', 2 * RETRY_MS)
    const processes = Math.max(1, server.workers().length)
    const most = processes * (Math.ceil((performance.now() - began) / RETRY_MS) + 1)
    assert.ok(requests - before <= most, `${requests - before} fetches, at most ${most}`)
  })
})
