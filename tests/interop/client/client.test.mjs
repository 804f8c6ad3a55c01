// @watchfire/client with our server: nothing is lost on a reconnect, and tokens are fresh.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { SignJWT } from 'jose'
import { WebSocket } from 'ws'

import { Client, LongPoll } from '../../../clients/javascript/dist/index.js'
import { launch } from '../lib/chromium.mjs'
import { Inbox, waitUntil } from '../lib/deadlines.mjs'
import { API_KEY, api } from '../lib/http-api.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { startNetwork } from './network.mjs'
import { listen } from '../lib/listen.mjs'

const PACKAGE = fileURLToPath(new URL('../../../clients/javascript', import.meta.url))
const SECRET = 'an HS256 secret of 32 bytes or more'
const SETTINGS = {
  'socket.check_origin': 'any',
  'channels.rules': `[
    { pattern = "news:*", join = "anyone", history = { messages = 1000, age = "2m" } },
    { pattern = "plain:*", join = "anyone" },
    { pattern = "orders:*", publish = "clients", presence = true, history = { messages = 1000 } },
  ]`.replaceAll('\n', ' '),
  'auth.hs256_secret': SECRET,
  'auth.leeway': '0s',
  'auth.expiry_notice': '3s',
  'api.key': API_KEY,
}

/** A token for all orders. */
function tokenOf(user, expiresIn = '1m', { join = ['orders:*'], secret = SECRET } = {}) {
  const token = new SignJWT({ channels: { join, publish: join }, meta: { name: user } }).setProtectedHeader({ alg: 'HS256' })
  return token.setSubject(user).setExpirationTime(expiresIn).sign(new TextEncoder().encode(secret))
}

/** Short delays, so that tests end soon. */
const QUICK = { transport: WebSocket, reconnectAfterMs: () => 20, rejoinAfterMs: () => 50 }

let topics = 0
const freshTopic = (prefix) => `${prefix}:${++topics}`

/** The messages and events that a channel has seen. */
function follow(channel) {
  const seen = { notes: [], statuses: new Inbox(), reloads: [] }
  channel.on('note', ({ n }) => seen.notes.push(n))
  channel.onStatus((status) => seen.statuses.put(status))
  channel.onReload((reload) => seen.reloads.push(reload))
  return seen
}

const upTo = (last) => Array.from({ length: last }, (_, index) => index + 1)
const is = (kind) => (status) => status.kind === kind

describe('the client', () => {
  let server
  before(async () => (server = await startWatchfire({ processes: 1, settings: SETTINGS })))
  after(() => server.stop())

  /** A client that disconnects when its test ends, and the errors that it reports. */
  function connect(t, options = {}, { endpoint } = server) {
    const errors = new Inbox()
    const client = new Client(endpoint, { ...QUICK, onError: errors.put, ...options })
    t.after(() => client.disconnect())
    return { client, errors }
  }

  /** Publishes the notes from one number to another. */
  async function publish(topic, from, to) {
    for (let n = from; n <= to; n++) await api(server, 'publish', { topic, event: 'note', payload: { n } })
  }

  // Several tests wait for the end of a token, so they run at the same time. Each has a network of its own.
  describe('in Node', { concurrency: true }, () => {
    for (const [name, transport] of Object.entries({ WebSocket, 'long poll': LongPoll })) {
      it(`${name}: gets what it missed while it was cut off, once and in order`, async (t) => {
        const topic = freshTopic('news')
        const network = await startNetwork(t, server)
        const { client } = connect(t, { transport }, network)
        const channel = client.channel(topic)
        const seen = follow(channel)
        await channel.join()
        await publish(topic, 1, 5)
        await waitUntil(() => seen.notes.length === 5, 'the first messages arrive')
        for (const [from, to] of [
          [6, 25],
          [26, 45],
        ]) {
          network.cut()
          await seen.statuses.next(is('interrupted'))
          await publish(topic, from, to)
          network.restore()
          assert.deepEqual(await seen.statuses.next(is('joined')), { kind: 'joined', recovered: true })
        }
        await publish(topic, 46, 46)
        await waitUntil(() => seen.notes.includes(46), 'the last message arrives')
        assert.deepEqual(seen.notes, upTo(46))
        assert.deepEqual(seen.reloads, [{ isFirst: true }])
      })
    }

    it('a server that lost its history has the client load its state again', async (t) => {
      const topic = freshTopic('news')
      const first = await startWatchfire({ processes: 1, settings: SETTINGS })
      t.after(() => first.kill())
      const network = await startNetwork(t, first)
      const { client } = connect(t, {}, network)
      const channel = client.channel(topic)
      const seen = follow(channel)
      await channel.join()
      await api(first, 'publish', { topic, event: 'note', payload: { n: 1 } })
      await waitUntil(() => seen.notes.length === 1, 'a message arrives')
      first.kill()
      await seen.statuses.next(is('interrupted'))
      const second = await startWatchfire({ processes: 1, settings: SETTINGS })
      t.after(() => second.stop())
      network.server = second
      assert.deepEqual(await seen.statuses.next(is('joined')), { kind: 'joined', recovered: false })
      await api(second, 'publish', { topic, event: 'note', payload: { n: 2 } })
      await waitUntil(() => seen.notes.length === 2, 'a message of the new history arrives')
      assert.deepEqual(seen.notes, [1, 2])
      assert.deepEqual(seen.reloads, [{ isFirst: true }, { isFirst: false }])
    })

    it('a topic without a history loads its state again after each interruption', async (t) => {
      const network = await startNetwork(t, server)
      const channel = connect(t, {}, network).client.channel(freshTopic('plain'))
      const seen = follow(channel)
      await channel.join()
      network.cut()
      await seen.statuses.next(is('interrupted'))
      network.restore()
      await seen.statuses.next(is('joined'))
      assert.deepEqual(seen.reloads, [{ isFirst: true }, { isFirst: false }])
    })

    it('a first join shows the last messages', async (t) => {
      const topic = freshTopic('news')
      const opener = connect(t).client.channel(topic)
      await opener.join()
      await publish(topic, 1, 5)
      const channel = connect(t).client.channel(topic, { last: 3 })
      const seen = follow(channel)
      await channel.join()
      await publish(topic, 6, 6)
      await waitUntil(() => seen.notes.includes(6), 'a new message arrives')
      assert.deepEqual(seen.notes, [3, 4, 5, 6])
    })

    it('falls back to long poll when no WebSocket opens', async (t) => {
      class Blocked extends WebSocket {
        constructor() {
          super('ws://127.0.0.1:1')
        }
      }
      const topic = freshTopic('orders')
      const { client } = connect(t, { transport: Blocked, longPollFallbackMs: 500, getToken: () => tokenOf('ada') })
      const channel = client.channel(topic)
      const seen = follow(channel)
      await channel.join()
      assert.deepEqual(await channel.push('note', { n: 1 }), {})
      await waitUntil(() => seen.notes.length === 1, 'the message arrives')
    })

    it('shows the clients that are present, also after an interruption', async (t) => {
      const topic = freshTopic('orders')
      const presence = new Inbox()
      const network = await startNetwork(t, server)
      const ada = connect(t, { getToken: () => tokenOf('ada') }, network).client.channel(topic)
      ada.onPresence((present) =>
        presence.put(
          Object.entries(present)
            .map(([key, metas]) => `${key}: ${metas[0].name}`)
            .sort(),
        ),
      )
      await ada.join()
      const bob = connect(t, { getToken: () => tokenOf('bob') }).client
      await bob.channel(topic).join()
      await presence.next((names) => names.join() === 'ada: ada,bob: bob')
      const seen = follow(ada)
      network.cut()
      await seen.statuses.next(is('interrupted'))
      bob.disconnect()
      network.restore()
      await presence.next((names) => names.join() === 'ada: ada')
    })

    it('a token is refreshed before it expires, and the channels stay', async (t) => {
      const ends = []
      const getToken = () => {
        const seconds = ends.length === 0 ? 5 : 60
        ends.push(Date.now() + seconds * 1_000)
        return tokenOf('ada', `${seconds}s`)
      }
      const { client, errors } = connect(t, { getToken })
      const channels = [client.channel(freshTopic('orders')), client.channel(freshTopic('orders'))]
      const all = channels.map(follow)
      for (const channel of channels) await channel.join()
      await waitUntil(() => Date.now() > ends[0] + 1_000, 'the first token has expired')
      for (const channel of channels) assert.deepEqual(await channel.push('note', { n: 1 }), {})
      for (const { statuses } of all) assert.deepEqual(statuses.all, [{ kind: 'joined', recovered: false }])
      assert.deepEqual(errors.all, [])
      // Each channel gets a notice, and both may share a call.
      assert.ok(ends.length === 2 || ends.length === 3, `getToken was called ${ends.length} times`)
    })

    it('a token that expired while there was no new one costs no message', async (t) => {
      const topic = freshTopic('orders')
      let calls = 0
      let isBackendUp = false
      const getToken = () => {
        calls += 1
        if (calls > 1 && !isBackendUp) throw new Error('the backend is away')
        return tokenOf('ada', calls === 1 ? '5s' : '1m')
      }
      const { client, errors } = connect(t, { getToken })
      const channel = client.channel(topic)
      const seen = follow(channel)
      await channel.join()
      await publish(topic, 1, 1)
      assert.match((await errors.next()).message, /^cannot get a token: the backend is away/)
      await seen.statuses.next(is('interrupted'))
      await assert.rejects(channel.push('note'), /it waits for a new token/)
      await publish(topic, 2, 10)
      isBackendUp = true
      assert.deepEqual(await seen.statuses.next(is('joined')), { kind: 'joined', recovered: true })
      await waitUntil(() => seen.notes.includes(10), 'the missed messages arrive')
      assert.deepEqual(seen.notes, upTo(10))
    })

    it('a client that was away longer than its token lasts connects with a fresh one', async (t) => {
      let calls = 0
      const getToken = () => tokenOf('ada', ++calls === 1 ? '4s' : '1m')
      const network = await startNetwork(t, server)
      const { client } = connect(t, { getToken }, network)
      const channel = client.channel(freshTopic('orders'))
      const seen = follow(channel)
      await channel.join()
      network.cut()
      await seen.statuses.next(is('interrupted'))
      const end = Date.now() + 4_500
      await waitUntil(() => Date.now() > end, 'the token has expired')
      network.restore()
      assert.deepEqual(await seen.statuses.next(is('joined')), { kind: 'joined', recovered: true })
      assert.equal(calls, 2)
    })

    it('a channel that is joined after the token of the connection has expired gets a fresh one', async (t) => {
      let calls = 0
      const { client, errors } = connect(t, {
        getToken: async () => {
          calls += 1
          if (calls > 1) await pause(500) // Longer than several attempts to join.
          return tokenOf('ada', calls === 1 ? '4s' : '1m')
        },
      })
      await client.channel(freshTopic('news')).join()
      const end = Date.now() + 4_500
      await waitUntil(() => Date.now() > end, 'the token has expired')
      await client.channel(freshTopic('orders')).join()
      assert.equal(calls, 2)
      assert.deepEqual(errors.all, [])
    })

    it('joins all channels of a socket at once, and again after an interruption', async (t) => {
      const slow = await startWatchfire({ processes: 1, settings: { ...SETTINGS, 'limits.joins_per_second_per_socket': '20' } })
      t.after(() => slow.stop())
      const network = await startNetwork(t, slow)
      const { client } = connect(t, {}, network)
      const channels = Array.from({ length: 30 }, () => client.channel(freshTopic('plain')))
      const seen = channels.map(follow)
      await Promise.all(channels.map((channel) => channel.join()))
      network.cut()
      await Promise.all(seen.map(({ statuses }) => statuses.next(is('interrupted'))))
      network.restore()
      await Promise.all(seen.map(({ statuses }) => statuses.next(is('joined'))))
    })

    it('a first join waits while the backend does not answer', async (t) => {
      let isAway = true
      const backend = http.createServer((request, response) => {
        request.resume().on('end', () => (isAway ? response.writeHead(503).end() : response.end('{"allow":true}')))
      })
      const port = await listen(backend)
      t.after(() => backend.close())
      const asking = await startWatchfire({
        processes: 1,
        settings: {
          'socket.check_origin': 'any',
          'channels.rules': '[{ pattern = "asked:*", join = "anyone", hooks = ["join"] }]',
          'hooks.url': `http://127.0.0.1:${port}/`,
          'hooks.secret': SECRET,
        },
      })
      t.after(() => asking.stop())
      const { client } = connect(t, {}, asking)
      const channel = client.channel('asked:1')
      const { statuses } = follow(channel)
      const joined = channel.join()
      assert.deepEqual(await statuses.next(is('refused')), { kind: 'refused', reason: 'backend_unavailable' })
      isAway = false
      await joined
    })

    it('a join that the token does not allow is refused', async (t) => {
      const { client } = connect(t, { getToken: () => tokenOf('ada', '1m', { join: ['orders:mine'] }) })
      const channel = client.channel('orders:other')
      const seen = follow(channel)
      await assert.rejects(channel.join(), {
        name: 'RefusedError',
        reason: 'unauthorized',
        message: 'cannot join orders:other: unauthorized',
      })
      assert.deepEqual(seen.statuses.all, [{ kind: 'closed', reason: 'unauthorized' }])
      const anonymous = connect(t).client.channel('orders:other')
      await assert.rejects(anonymous.join(), { reason: 'unauthorized' })
    })

    it('a token that no key has signed is reported, and the client connects once it has a valid one', async (t) => {
      let secret = 'another secret, also of 32 bytes or more'
      const { client, errors } = connect(t, { getToken: () => tokenOf('ada', '4s', { secret }) })
      const joined = client.channel(freshTopic('orders')).join()
      assert.match((await errors.next()).message, /^cannot connect to ws:.* refuses the token/)
      secret = SECRET
      await joined
    })

    it('a message that the server refuses rejects its push', async (t) => {
      const channel = connect(t, { getToken: () => tokenOf('ada') }).client.channel(freshTopic('orders'))
      await channel.join()
      await assert.rejects(channel.push('presence_diff'), { name: 'RefusedError', reason: 'event_reserved' })
      channel.leave()
      await assert.rejects(channel.push('note'), /call join\(\) first/)
      await channel.join()
    })
  })

  it('in a page, the built module gets what it missed', async (t) => {
    const topic = freshTopic('orders')
    const network = await startNetwork(t, server)
    const modules = await servePage(t)
    const browser = await launch()
    t.after(() => browser.close())
    const tab = await browser.newPage()
    const problems = []
    tab.on('pageerror', (error) => problems.push(error.message))
    await tab.goto(modules)
    await tab.evaluate(
      async ({ endpoint, topic, token }) => {
        const { Client } = await import('@watchfire/client')
        const client = new Client(endpoint, { getToken: () => token, reconnectAfterMs: () => 20 })
        const channel = client.channel(topic)
        const seen = { notes: [], statuses: [] }
        Object.assign(globalThis, { client, seen })
        channel.on('note', ({ n }) => seen.notes.push(n))
        channel.onStatus((status) => seen.statuses.push(status))
        await channel.join()
      },
      { endpoint: network.endpoint, topic, token: await tokenOf('ada') },
    )
    const seen = () => tab.evaluate(() => Reflect.get(globalThis, 'seen'))
    await publish(topic, 1, 5)
    await waitUntil(async () => (await seen()).notes.length === 5, 'the first messages arrive')
    network.cut()
    await waitUntil(async () => (await seen()).statuses.length === 2, 'the channel is interrupted')
    await publish(topic, 6, 25)
    network.restore()
    await waitUntil(async () => (await seen()).notes.includes(25), 'the missed messages arrive')
    const { notes, statuses } = await seen()
    assert.deepEqual(notes, upTo(25))
    assert.deepEqual(statuses.at(-1), { kind: 'joined', recovered: true })
    assert.deepEqual(problems, [])
  })
})

/** Serves a page whose import map leads to the built client and to npm `phoenix`, as the package's README shows it. */
async function servePage(t) {
  const map = { imports: { '@watchfire/client': '/dist/index.js', phoenix: '/node_modules/phoenix/priv/static/phoenix.mjs' } }
  const page = `<!doctype html><title>A page</title><script type="importmap">${JSON.stringify(map)}</script>`
  const files = http.createServer((request, response) => {
    if (request.url === '/') return response.setHeader('Content-Type', 'text/html').end(page)
    if (!request.url.endsWith('js')) return response.writeHead(404).end()
    response.setHeader('Content-Type', 'text/javascript').end(readFileSync(path.join(PACKAGE, request.url)))
  })
  t.after(() => files.close())
  return `http://127.0.0.1:${await listen(files)}/`
}
