// @supabase/realtime-js against the server at the port of the first argument.

import { createHmac } from 'node:crypto'
import { once } from 'node:events'

import { RealtimeClient } from '@supabase/realtime-js'
import WebSocket from 'ws'

import { API_KEY } from '../../interop/lib/http-api.mjs'
import { SECRET } from './secret.mjs'

const [port, slice] = process.argv.slice(2)
const WAIT_MS = 15_000

const print = (object) => process.stdout.write(`${JSON.stringify(object)}\n`)

async function ask(request) {
  print(request)
  await once(process.stdin, 'data')
}

/** Resolves with the argument of the callback that `listen` gets, unless it comes too late. */
function soon(listen) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`nothing within ${WAIT_MS} ms`)), WAIT_MS)
    listen((value) => {
      clearTimeout(timer)
      resolve(value)
    })
  })
}

async function test(name, run) {
  try {
    const found = await run()
    print({ name, isPassed: found === true, found: `got ${JSON.stringify(found)}` })
  } catch (error) {
    print({ name, isPassed: false, found: error.message })
  }
}

const connect = (vsn, apikey = 'anonymous') =>
  new RealtimeClient(`ws://127.0.0.1:${port}/socket`, {
    params: { apikey },
    transport: WebSocket,
    ...(vsn ? { vsn } : {}),
    reconnectAfterMs: () => 200,
  })

/** A token of ada for the topics of orders. */
function tokenFor(seconds) {
  const claims = {
    sub: 'ada',
    exp: Math.floor(Date.now() / 1000) + seconds,
    channels: { join: ['realtime:orders*'], publish: ['realtime:orders*'] },
  }
  const message = [{ alg: 'HS256' }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${message}.${createHmac('sha256', SECRET).update(message).digest('base64url')}`
}

/** A joined channel, and what it has heard. */
async function join(client, topic, broadcast = {}) {
  const channel = client.channel(topic, { config: { broadcast: { ack: true, ...broadcast } } })
  const heard = []
  const states = []
  const waiting = new Set()
  const note = (list) => (value) => {
    list.push(value)
    for (const wake of [...waiting]) wake()
  }
  channel.on('broadcast', { event: 'shout' }, note(heard))
  channel.on('presence', { event: 'sync' }, note([]))
  channel.subscribe(note(states))
  const until = (condition) =>
    soon((done) => {
      const look = () => {
        if (!condition()) return
        waiting.delete(look)
        done(true)
      }
      waiting.add(look)
      look()
    })
  await until(() => states.length > 0)
  return { channel, heard, states, until }
}

async function judge(vsn) {
  const [ada, ben] = [connect(vsn), connect(vsn)]
  const [one, two] = [await join(ada, 'room'), await join(ben, 'room')]
  await test(`${vsn}: a join is acknowledged`, () => one.states[0] === 'SUBSCRIBED' && two.states[0] === 'SUBSCRIBED')
  await test(`${vsn}: a push is acknowledged`, async () =>
    (await one.channel.send({ type: 'broadcast', event: 'shout', payload: { n: 1 } })) === 'ok')
  await test(`${vsn}: a push reaches another client`, () => two.until(() => two.heard.some(({ payload }) => payload?.n === 1)))
  await test(`${vsn}: a message of the server's side reaches a client`, async () => {
    await ask({
      ask: 'publish',
      topic: 'realtime:room',
      event: 'broadcast',
      payload: { type: 'broadcast', event: 'shout', payload: { n: 2 } },
    })
    return one.until(() => one.heard.some(({ payload }) => payload?.n === 2))
  })
  await test(`${vsn}: a heartbeat is answered`, async () => {
    const answered = soon((done) => ada.onHeartbeat((status) => status === 'ok' && done(true)))
    await ada.sendHeartbeat()
    return answered
  })
  await test(`${vsn}: a client joins again after a restart, and hears`, async () => {
    const before = one.states.length
    await ask({ ask: 'restart' })
    await one.until(() => one.states.slice(before).includes('SUBSCRIBED'))
    await ask({
      ask: 'publish',
      topic: 'realtime:room',
      event: 'broadcast',
      payload: { type: 'broadcast', event: 'shout', payload: { n: 3 } },
    })
    return one.until(() => one.heard.some(({ payload }) => payload?.n === 3))
  })
  await test(`${vsn}: a client leaves`, async () => (await one.channel.unsubscribe()) === 'ok')
  await Promise.all([ada, ben].map((client) => client.disconnect()))
}

/** The things that the client does with its defaults, beyond Phoenix. */
async function judgeDefaults() {
  const clients = [connect(), connect(), connect(undefined, API_KEY)]
  const [ada, ben, backend] = clients
  const [one, two] = [await join(ada, 'lobby'), await join(ben, 'lobby', { self: true })]
  const shout = (channel, payload) => channel.send({ type: 'broadcast', event: 'shout', payload })
  const hears = (who, n) => who.until(() => who.heard.some(({ payload }) => payload?.n === n))
  const hearsBytes = (who, bytes) =>
    who.until(() => who.heard.some(({ payload }) => payload instanceof ArrayBuffer && Buffer.from(payload).equals(bytes)))
  await test('a client hears itself only if it asks for it', async () => {
    await shout(one.channel, { n: 1 })
    await shout(two.channel, { n: 2 })
    await Promise.all([hears(one, 2), hears(two, 2)])
    return one.heard.length === 1 && two.heard.length === 2
  })
  await test('bytes reach another client, in both directions', async () => {
    await shout(one.channel, Uint8Array.of(0, 1, 255).buffer)
    await hearsBytes(two, Buffer.of(0, 1, 255))
    await shout(two.channel, new ArrayBuffer(0))
    return hearsBytes(one, Buffer.of())
  })
  await test('a message before the subscription goes over HTTP', async () =>
    (await shout(backend.channel('lobby'), { n: 3 })) === 'ok' && hears(one, 3))
  await test('httpSend publishes JSON', async () => (await backend.channel('lobby').httpSend('shout', { n: 4 })).success && hears(one, 4))
  await test('httpSend publishes bytes', async () =>
    (await backend.channel('lobby').httpSend('shout', Uint8Array.of(7))).success && hearsBytes(one, Buffer.of(7)))
  await test('a broadcast over HTTP needs a key of the API', async () => (await shout(connect().channel('lobby'), { n: 5 })) === 'error')
  await test('an access token opens a topic', async () => {
    const refused = await join(ben, 'orders')
    await ada.setAuth(tokenFor(3))
    const accepted = await join(ada, 'orders')
    return refused.states[0] === 'CHANNEL_ERROR' && accepted.states[0] === 'SUBSCRIBED'
  })
  await test('the presence of a user has the name in the token', async () => {
    const { channel, until } = await join(ada, 'orders-seen')
    return until(() => 'ada' in channel.presenceState())
  })
  await test('a fresh access token prolongs a channel', async () => {
    const [kept, other] = [await join(ada, 'orders-kept'), connect()]
    clients.push(other)
    await other.setAuth(tokenFor(3))
    const stale = await join(other, 'orders-kept')
    await ada.setAuth(tokenFor(60))
    await stale.until(() => stale.states.includes('CLOSED'))
    await backend.channel('orders-kept').httpSend('shout', { n: 6 })
    return (await hears(kept, 6)) && kept.states.length === 1
  })
  await Promise.all(clients.map((client) => client.disconnect()))
}

for (const vsn of slice ? ['2.0.0'] : ['1.0.0', '2.0.0']) await judge(vsn)
await judgeDefaults()
process.exit(0)
