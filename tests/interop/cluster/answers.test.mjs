// Publishers of topics with a history, on machines whose histories are in NATS: they are answered when NATS has stored the message.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { freshTopic, reply } from '../lib/test-client.mjs'
import { joinAll, startMachines } from '../lib/machines.mjs'
import { Cuttable, buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { API_KEY, api, callApi } from '../lib/http-api.mjs'
import { waitUntil } from '../lib/deadlines.mjs'

describe('a publisher of a topic with a history', { skip: whyNoNats }, () => {
  let nats
  let way
  let machines
  before(async () => {
    await buildNats()
    ;[nats] = await startNats(1)
    way = await Cuttable.to(nats.port)
    // The first machine can be cut off.
    machines = await startMachines([[way.url], [nats.url]], { processes: [2, 1], more: [1, 2].map(() => ({ 'api.key': API_KEY })) })
  })
  after(async () => {
    await Promise.all(machines.map((machine) => machine.stop()))
    way.close()
    await nats.kill()
  })

  const call = (topic, n, headers = {}) => callApi(machines[0], 'publish', { topic, event: 'note', payload: { n } }, { headers })
  const numbers = ({ messages }) => messages.all.map(({ n }) => n)

  it('gets the position of the message, as its receivers do', async (t) => {
    const topic = freshTopic('kept')
    const members = await joinAll(t, machines, topic)
    const refs = members.map(({ channel }) => new Promise((resolve) => channel.on('note', (_, ref) => resolve(ref))))
    const { position } = await api(machines[0], 'publish', { topic, event: 'note', payload: { n: 1 } })
    assert.match(position, /^[0-9a-z]+:[0-9]+$/)
    assert.deepEqual(await Promise.all(refs), [position, position])
    assert.equal((await reply(members[0].channel.push('note', { n: 2 }))).status, 'ok')
    for (const member of members) {
      await member.messages.take(2)
      assert.deepEqual(numbers(member), [1, 2])
    }
  })

  it('is refused while its machine is cut off from NATS, and its repeats are stored once', async (t) => {
    const topic = freshTopic('kept')
    const members = await joinAll(t, machines, topic)
    way.cut()
    const refused = await waitUntil(async () => {
      const answer = await call(topic, 0)
      return answer.status === 503 && answer
    }, 'the machine notices that NATS is away')
    assert.deepEqual([refused.headers['retry-after'], refused.body.error.code], ['1', 'unavailable'])
    const push = await reply(members[0].channel.push('note', { n: 0 }))
    assert.deepEqual(push, { status: 'error', response: { reason: 'not_stored' } })
    const once = { 'Idempotency-Key': 'once' }
    assert.equal((await call(topic, 1, once)).status, 503)

    way.open()
    await waitUntil(async () => (await call(topic, 1, once)).status === 200, 'NATS is back')
    assert.equal((await call(topic, 1, once)).headers['idempotency-replayed'], 'true')
    assert.equal((await call(topic, 2)).status, 200)
    for (const { messages } of members) await messages.next(({ n }) => n === 2)
    assert.deepEqual(
      members.map((member) => numbers(member).filter((n) => n > 0)),
      [
        [1, 2],
        [1, 2],
      ],
      'the one that was cut off has not missed any',
    )
    for (const { client } of members) assert.equal(client.closed.all.length, 0)
  })

  it('hears after some seconds that a message is not confirmed, and a repeat is stored once', async (t) => {
    const topic = freshTopic('kept')
    const members = await joinAll(t, machines, topic)
    const once = { 'Idempotency-Key': 'while it is stopped' }
    nats.signal('SIGSTOP')
    const push = reply(members[0].channel.push('note', { n: 0 }))
    const first = await call(topic, 1, once)
    assert.equal(first.status, 503)
    const { status, response } = await push
    assert.deepEqual([status, response.reason], ['error', 'not_stored'])
    nats.signal('SIGCONT')
    await waitUntil(async () => (await call(topic, 1, once)).status === 200, 'NATS is back')
    assert.equal((await call(topic, 2)).status, 200)
    for (const member of members) {
      await member.messages.next(({ n }) => n === 2)
      assert.deepEqual(
        numbers(member).filter((n) => n > 0),
        [1, 2],
        'the repeat is not stored again',
      )
    }
  })
})
