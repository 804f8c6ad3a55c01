// @supabase/realtime-js against the server at the port of the first argument.

import { once } from 'node:events'

import { RealtimeClient } from '@supabase/realtime-js'
import WebSocket from 'ws'

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

const connect = (vsn) =>
  new RealtimeClient(`ws://127.0.0.1:${port}/socket`, {
    params: { apikey: 'anonymous' },
    transport: WebSocket,
    vsn,
    reconnectAfterMs: () => 200,
  })

/** A joined channel, and what it has heard. */
async function join(client, topic) {
  const channel = client.channel(topic, { config: { broadcast: { ack: true } } })
  const heard = []
  const states = []
  const waiting = new Set()
  const note = (list) => (value) => {
    list.push(value)
    for (const wake of [...waiting]) wake()
  }
  channel.on('broadcast', { event: 'shout' }, note(heard))
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

for (const vsn of slice ? ['2.0.0'] : ['1.0.0', '2.0.0']) await judge(vsn)
process.exit(0)
