// Hooks: a backend decides about the joins and messages of stock clients.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { newFolder } from '../lib/folders.mjs'
import { collectEvents, connect, freshTopic, reply, variantsWhere, newestWay } from '../lib/test-client.mjs'
import { certify } from '../lib/certificate.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { Inbox, waitUntil } from '../lib/deadlines.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { closeServer, listen } from '../lib/listen.mjs'

const SECRET = 'a secret of hooks of 32 bytes or more'
const RULES = [
  '{ pattern = "rooms:*", join = "anyone", publish = "clients", presence = true, hooks = ["join", "publish", "leave"] }',
  '{ pattern = "plain:*", join = "anyone", publish = "clients" }',
]
const BACKEND = fileURLToPath(new URL('../../../examples/hooks/backend.mjs', import.meta.url))

/** A backend. `decide` returns an answer, or a promise of one; an error becomes status 500. */
class Backend {
  requests = new Inbox()
  server
  url
  /** @type {(question: any) => unknown} */
  decide = () => ({ allow: true })

  /** Starts it; with a certificate for `localhost`, over HTTPS. */
  static async start(tls) {
    const backend = new Backend()
    const listener = (request, response) => backend.#answer(request, response)
    backend.server = tls ? https.createServer(tls, listener) : http.createServer(listener)
    backend.url = `${tls ? 'https://localhost' : 'http://127.0.0.1'}:${await listen(backend.server)}/hooks`
    return backend
  }

  async #answer(request, response) {
    const chunks = await request.toArray()
    const text = Buffer.concat(chunks).toString()
    const [, time, signature] = /^t=(\d+),v1=(.*)$/.exec(request.headers['watchfire-signature'])
    assert.equal(signature, createHmac('sha256', SECRET).update(`${time}.${text}`).digest('hex'))
    const question = JSON.parse(text)
    this.requests.put(question)
    try {
      response.end(JSON.stringify(await this.decide(question)))
    } catch {
      response.writeHead(500).end()
    }
  }

  stop() {
    return closeServer(this.server)
  }
}

/** Starts a backend, and a server with these rules that asks it. */
async function startWithBackend(rules, settings = {}) {
  const backend = await Backend.start()
  const hooks = { 'hooks.url': backend.url, 'hooks.secret': SECRET, 'hooks.failures_max': '3', 'hooks.retry_after': '200ms' }
  const common = { 'socket.check_origin': 'any', 'channels.rules': `[${rules.join(', ')}]` }
  return { backend, server: await startWatchfire({ settings: { ...common, ...hooks, ...settings } }) }
}

async function stopBoth(server, backend) {
  await server.stop()
  await backend.stop()
}

describe('a server with hooks', () => {
  let server
  let backend
  before(async () => ({ server, backend } = await startWithBackend(RULES)))
  after(() => stopBoth(server, backend))

  for (const variant of variantsWhere(() => true)) {
    it(`lets the backend decide: ${variant.name}`, async (t) => {
      const topic = freshTopic('rooms')
      backend.decide = ({ hook, topic: asked, payload }) => {
        if (hook === 'join')
          return asked === topic
            ? { allow: true, meta: { seat: payload.seat }, reply: { seat: payload.seat } }
            : { allow: false, reason: 'closed' }
        if (hook === 'publish')
          return payload.text === 'bad'
            ? { allow: false, reason: 'not polite' }
            : { allow: true, payload: { text: `${payload.text}!` }, reply: { id: 7 } }
        return {}
      }
      const client = connect(t, server, variant)
      const channel = client.socket.channel(topic, { seat: 3 })
      const presence = new newest.Presence(channel)
      const messages = collectEvents(channel, 'message')
      assert.deepEqual(await reply(channel.join()), { status: 'ok', response: { seat: 3 } })
      await waitUntil(() => presence.list((_, { metas: [meta] }) => meta.seat).includes(3), 'the meta of the backend is present')
      assert.deepEqual(await reply(channel.push('message', { text: 'good' })), { status: 'ok', response: { id: 7 } })
      assert.deepEqual(await messages.next(), { text: 'good!' })
      assert.deepEqual(await reply(channel.push('message', { text: 'bad' })), { status: 'error', response: { reason: 'not polite' } })
      const joined = await backend.requests.next(({ hook, topic: asked }) => hook === 'join' && asked === topic)
      channel.leave()
      const left = await backend.requests.next(({ hook, topic: asked }) => hook === 'leave' && asked === topic)
      assert.equal(left.channel, joined.channel)

      const refused = client.socket.channel(freshTopic('rooms'))
      assert.deepEqual(await reply(refused.join()), { status: 'error', response: { reason: 'closed' } })
      refused.leave()
    })
  }
})

describe('a server that asks about clients', () => {
  // A client without an identity may join nothing.
  const rules = ['{ pattern = "rooms:*", join = "token", publish = "clients", presence = true }']
  const identity = (user) => ({
    allow: true,
    user,
    meta: { name: user.toUpperCase() },
    channels: { join: ['rooms:*'], publish: ['rooms:*'] },
  })
  let server
  let backend
  before(async () => ({ server, backend } = await startWithBackend(rules, { 'hooks.connect': 'true', 'hooks.timeout': '30s' })))
  after(() => stopBoth(server, backend))

  for (const variant of variantsWhere(() => true)) {
    it(`lets the backend say who connects: ${variant.name}`, async (t) => {
      const topic = freshTopic('rooms')
      backend.decide = ({ params: { user } }) => identity(user)
      const name = `ada-${topic.replace(':', '-')}`
      const client = connect(t, server, variant, { params: { user: name, 'a[b]': 'c' } })
      const channel = client.socket.channel(topic)
      const presence = new newest.Presence(channel)
      const notes = collectEvents(channel, 'note')
      assert.equal((await reply(channel.join())).status, 'ok')
      await waitUntil(
        () => presence.list((user, { metas: [meta] }) => `${user} ${meta.name}`).includes(`${name} ${name.toUpperCase()}`),
        'the client is present as its user',
      )
      assert.equal((await reply(channel.push('note', { n: 1 }))).status, 'ok')
      assert.deepEqual(await notes.next(), { n: 1 })
      const asked = await backend.requests.next(({ params }) => params.user === name)
      assert.equal(asked.transport, variant.isPoll ? 'longpoll' : 'websocket')
      assert.equal(asked.socket.address, '127.0.0.1')
    })

    // As with Phoenix itself, the long poll of older clients stops at the status 403.
    if (variant.isPoll && !variant.library.handlesRejection) continue
    it(`refuses a client until the backend allows it: ${variant.name}`, async (t) => {
      const name = `bob-${freshTopic('x').replace(':', '-')}`
      let refusals = 2
      backend.decide = ({ params: { user } }) => {
        if (user !== name || refusals === 0) return identity(user)
        refusals -= 1
        if (refusals === 0) throw new Error('broken')
        return { allow: false }
      }
      const client = connect(t, server, variant, { params: { user: name } })
      await client.opened.next()
      assert.equal(refusals, 0)
      await client.join(freshTopic('rooms'))
    })
  }
})

describe('a backend over HTTPS', () => {
  for (const isTrusted of [true, false]) {
    it(`is ${isTrusted ? 'asked if its certificate is trusted' : 'not asked if its certificate is not trusted'}`, async (t) => {
      const folder = newFolder(t)
      const { cert, key } = certify(folder, ['localhost'])
      const backend = await Backend.start({ cert: readFileSync(cert), key: readFileSync(key) })
      t.after(() => backend.stop())
      if (isTrusted) process.env.SSL_CERT_FILE = cert
      const settings = { 'channels.rules': `[${RULES.join(', ')}]`, 'hooks.url': backend.url, 'hooks.secret': SECRET }
      const server = await startWatchfire({ settings }).finally(() => delete process.env.SSL_CERT_FILE)
      t.after(() => server.stop())
      const channel = connect(t, server, newestWay).socket.channel('rooms:1')
      const { status, response } = await reply(channel.join())
      if (isTrusted) assert.equal(status, 'ok')
      else assert.deepEqual([response.reason, backend.requests.all.length], ['backend_unavailable', 0])
    })
  }
})

describe('the example of a backend', () => {
  it('has rooms for two, in which nobody shouts', async (t) => {
    const [port] = await listeningPorts(1)
    const backend = spawn('node', [BACKEND], { env: { ...process.env, PORT: String(port), HOOKS_SECRET: SECRET }, stdio: 'ignore' })
    t.after(() => backend.kill('SIGKILL'))
    const url = `http://127.0.0.1:${port}/hooks`
    await waitUntil(
      () =>
        fetch(url, { method: 'POST' }).then(
          ({ status }) => status === 401,
          () => false,
        ),
      'the backend refuses what is not signed',
    )
    const server = await startWatchfire({
      settings: { 'channels.rules': `[${RULES.join(', ')}]`, 'hooks.url': url, 'hooks.secret': SECRET },
    })
    t.after(() => server.stop())
    const [ada, bob, eve] = ['ada', 'bob', 'eve'].map((name) => connect(t, server, newestWay).socket.channel('rooms:1', { name }))
    assert.deepEqual(await reply(ada.join()), { status: 'ok', response: { members: 1 } })
    assert.deepEqual(await reply(bob.join()), { status: 'ok', response: { members: 2 } })
    const heard = collectEvents(bob, 'message')
    ada.push('message', { text: 'HELLO' })
    assert.deepEqual(await heard.next(), { text: 'hello' })
    const answers = new Inbox()
    const join = eve.join()
    join.receive('error', answers.put)
    join.receive('ok', answers.put)
    assert.deepEqual(await answers.next(), { reason: 'the room is full' })
    ada.leave()
    assert.deepEqual(await answers.next(({ members }) => members), { members: 2 })
  })
})
