// Histories of several machines: JetStream stores the messages, and every machine has the same ones.

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { before, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { API_KEY, api, callApi } from '../lib/http-api.mjs'
import { RULES, startMachines } from '../lib/machines.mjs'
import { Cuttable, buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { run } from '../lib/program.mjs'
import { binary, startWatchfire } from '../lib/server.mjs'
import { connect, freshTopic, newestWay, reply } from '../lib/test-client.mjs'

const numbers = (from, to) => Array.from({ length: to - from }, (_, at) => from + at)

/** Joins a topic after a position; collects the numbers of its notes, its last position, and whether each join recovered. */
async function follow(t, machine, topic, seen = { numbers: [], position: null, recovered: [] }) {
  const client = connect(t, machine, newestWay)
  const channel = client.socket.channel(topic, () => ({ history: { after: seen.position } }))
  channel.on('note', ({ n }, position) => {
    seen.numbers.push(n)
    seen.position = position
  })
  const join = channel.join().receive('ok', ({ recovered, position }) => {
    seen.recovered.push(recovered)
    if (!recovered) seen.position = position
  })
  assert.equal((await reply(join)).status, 'ok')
  return { client, channel, seen }
}

/** Sends numbered notes, and waits for the answers; returns their status. */
async function speak(channel, from, to) {
  const sent = numbers(from, to).map((n) => reply(channel.push('note', { n }), `note ${n} is answered`, 10_000))
  return (await Promise.all(sent)).map(({ status }) => status)
}

const untilHas = (seen, count) => waitUntil(() => seen.numbers.length >= count, `${count} notes arrive`, 15_000)

describe('histories of several machines', { skip: whyNoNats }, () => {
  before(buildNats)

  async function start(t, count = 2, servers = 1, more) {
    const nats = await startNats(servers)
    const urls = nats.map(({ url }) => url)
    const machines = await startMachines(
      Array.from({ length: count }, () => urls),
      { more },
    )
    t.after(() => Promise.all([...machines.map((machine) => machine.stop()), ...nats.map((server) => server.kill())]))
    return { nats, machines }
  }

  /** Starts one NATS server with lines of its configuration. */
  async function startWith(t, lines = '') {
    const file = path.join(newFolder(t), 'server.conf')
    await writeFile(file, lines)
    const [nats] = await startNats(1, ['-c', file])
    t.after(() => nats.kill())
    return nats
  }

  /** The output of `watchfire serve --check`. */
  async function checkSettings(nats, more) {
    const settings = { 'cluster.nats': nats.url, 'channels.rules': RULES, ...more }
    const sets = Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`])
    return (await run(binary('watchfire'), ['serve', '--check', ...sets])).stdout
  }

  it('a client that was away gets what it missed from another machine, and one of a machine that starts later', async (t) => {
    const { nats, machines } = await start(t)
    const topic = freshTopic('kept')
    const speaker = await follow(t, machines[0], topic)
    const first = await follow(t, machines[1], topic)
    assert.deepEqual(await speak(speaker.channel, 0, 50), Array(50).fill('ok'))
    await untilHas(first.seen, 50)
    first.client.socket.disconnect()
    await speak(speaker.channel, 50, 100)
    const again = await follow(t, machines[0], topic, first.seen)
    await untilHas(again.seen, 100)
    again.client.socket.disconnect()
    await speak(speaker.channel, 100, 150)
    const late = await startWatchfire({ settings: machines.settings[0], processes: 2 })
    t.after(() => late.stop())
    const there = await follow(t, late, topic, first.seen)
    await speak(speaker.channel, 150, 200)
    await untilHas(there.seen, 200)
    assert.deepEqual(there.seen.numbers, numbers(0, 200))
    assert.deepEqual(there.seen.recovered, [false, true, true])
    assert.deepEqual(speaker.seen.numbers, numbers(0, 200))
    assert(nats.length === 1)
  })

  it('every topic has its own messages, whatever bytes it has', async (t) => {
    const { machines } = await start(t)
    const names = ['a.b', 'a.c', '*', '>', ' ', '%', 'é😀', '\u0001\r\n', 'x'.repeat(200)]
    const topics = names.map((name) => `kept:${name}`)
    const speakers = await Promise.all(topics.map((topic) => follow(t, machines[0], topic)))
    const listeners = await Promise.all(topics.map((topic) => follow(t, machines[1], topic)))
    for (const [at, { channel }] of speakers.entries()) assert.deepEqual(await speak(channel, at, at + 1), ['ok'])
    for (const [at, { seen }] of listeners.entries()) {
      await untilHas(seen, 1)
      assert.deepEqual(seen.numbers, [at])
    }
  })

  it('a topic has a history on all machines as soon as one has a rule for it', async (t) => {
    const open = '[{ pattern = "kept:*", join = "anyone", publish = "clients" }]'
    const { machines } = await start(t, 2, 1, [{}, { 'channels.rules': open }])
    const topic = freshTopic('kept')
    const first = await follow(t, machines[1], topic)
    assert.deepEqual(await speak(first.channel, 0, 5), Array(5).fill('ok'))
    await untilHas(first.seen, 5)
    first.client.socket.disconnect()
    const speaker = await follow(t, machines[0], topic)
    assert.deepEqual(await speak(speaker.channel, 5, 10), Array(5).fill('ok'))
    const again = await follow(t, machines[1], topic, first.seen)
    await untilHas(again.seen, 10)
    assert.deepEqual(again.seen.numbers, numbers(0, 10))
    assert.deepEqual(again.seen.recovered, [false, true])
  })

  it('without NATS clients stay, messages are refused, and afterwards clients hear what was stored', async (t) => {
    const nats = await startNats(1)
    const ways = await Promise.all([Cuttable.to(nats[0].port), Cuttable.to(nats[0].port)])
    const machines = await startMachines(ways.map(({ url }) => [url]))
    t.after(() => Promise.all([...machines.map((machine) => machine.stop()), ...ways.map((way) => way.close()), nats[0].kill()]))
    const topic = freshTopic('kept')
    const speaker = await follow(t, machines[0], topic)
    const listener = await follow(t, machines[1], topic)
    await speak(speaker.channel, 0, 10)
    await untilHas(listener.seen, 10)
    ways[1].cut()
    assert.deepEqual(await speak(speaker.channel, 10, 20), Array(10).fill('ok'))
    const refused = async () => (await reply(listener.channel.push('note', { n: -1 }), 'it is answered', 10_000)).status === 'error'
    await waitUntil(refused, 'a message is refused', 15_000)
    ways[1].open()
    await untilHas(listener.seen, 20)
    assert.deepEqual(listener.seen.numbers, numbers(0, 20))
    assert.deepEqual(listener.seen.recovered, [false], 'it did not join again')
    await speak(speaker.channel, 20, 30)
    await untilHas(listener.seen, 30)
    assert.deepEqual(listener.seen.numbers, numbers(0, 30))
  })

  it('clients are told when the stream is deleted', async (t) => {
    const { nats, machines } = await start(t)
    const topic = freshTopic('kept')
    const speaker = await follow(t, machines[0], topic)
    const listener = await follow(t, machines[1], topic)
    await speak(speaker.channel, 0, 10)
    await untilHas(listener.seen, 10)
    await nats[0].request(`$JS.API.STREAM.DELETE.${machines.prefix.replaceAll('.', '-')}-history-10000-300s`)
    await waitUntil(() => listener.seen.recovered.length > 1 && speaker.seen.recovered.length > 1, 'the clients join again', 15_000)
    assert.deepEqual(listener.seen.recovered, [false, false])
    assert.deepEqual(await speak(speaker.channel, 10, 20), Array(10).fill('ok'))
    await untilHas(listener.seen, 20)
    assert.deepEqual(listener.seen.numbers, numbers(0, 20))
  })

  it('survives the loss of one of three NATS servers without a lost message', async (t) => {
    const { nats, machines } = await start(t, 2, 3, Array(2).fill({ 'cluster.history_replicas': 3 }))
    const topic = freshTopic('kept')
    const speaker = await follow(t, machines[0], topic)
    const listener = await follow(t, machines[1], topic)
    const stored = []
    for (let n = 0; n < 200; n++) {
      if (n === 50) await nats[0].kill()
      for (;;) {
        const [status] = await speak(speaker.channel, n, n + 1)
        if (status === 'ok') break
      }
      stored.push(n)
    }
    const has = () => stored.every((n) => listener.seen.numbers.includes(n))
    await waitUntil(has, 'each message that was stored arrives', 20_000)
    assert.deepEqual(listener.seen.recovered, [false])
    assert(
      listener.seen.numbers.every((n, at, all) => at === 0 || n >= all[at - 1]),
      'in order',
    )
  })

  it('a message that NATS does not take is refused with its limit, and the next one is stored', async (t) => {
    const nats = await startWith(t, 'max_payload: 4096')
    const machines = await startMachines([[nats.url], [nats.url]], { more: Array(2).fill({ 'api.key': API_KEY }) })
    t.after(() => Promise.all(machines.map((machine) => machine.stop())))
    const topic = freshTopic('kept')
    const [speaker, listener] = [await follow(t, machines[0], topic), await follow(t, machines[1], topic)]
    const note = { n: 0, text: 'x'.repeat(5_000) }
    const { status, response } = await reply(speaker.channel.push('note', note))
    assert.deepEqual([status, response.reason], ['error', 'payload_too_large'])
    const answer = await callApi(machines[0], 'publish', { topic, event: 'note', payload: note })
    assert.deepEqual([answer.status, answer.body.error.code], [413, 'payload_too_large'])
    assert.deepEqual(await speak(speaker.channel, 1, 2), ['ok'])
    await untilHas(listener.seen, 1)
    assert.deepEqual(listener.seen.numbers, [1])
  })

  it('the HTTP API reads what another machine has published, and no position of another server', async (t) => {
    const nats = await startWith(t)
    const machines = await startMachines([[nats.url], [nats.url]], { more: Array(2).fill({ 'api.key': API_KEY }) })
    t.after(() => Promise.all(machines.map((machine) => machine.stop())))
    const topic = freshTopic('kept')
    const publish = (n) => api(machines[0], 'publish', { topic, event: 'note', payload: { n } })
    const { position: first } = await publish(1)
    await publish(2)
    const read = async (after) => {
      const { messages, recovered } = await api(machines[1], 'history', { topic, after })
      return { numbers: messages.map(({ payload }) => payload.n), recovered }
    }
    assert.deepEqual(await read(first), { numbers: [2], recovered: true })
    const [epoch, offset] = first.split(':')
    for (const other of [`${epoch}:9999999`, `a${epoch.slice(1)}b:${offset}`, 'not a position']) {
      assert.deepEqual(await read(other), { numbers: [], recovered: false }, other)
    }
  })

  it('the start and --check say what NATS lacks, and --check makes nothing', async (t) => {
    const name = 'test-lacks-history-10000-300s'
    const lacks = async (nats, what) => {
      const more = [{ 'cluster.prefix': 'test.lacks' }]
      await assert.rejects(startMachines([[nats.url]], { more }), what)
      await assert.rejects(checkSettings(nats, more[0]), what)
    }
    const [without] = await startNats(1, [], { jetStream: false })
    t.after(() => without.kill())
    await lacks(without, /start nats-server with JetStream \(nats-server -js\)/)
    const taken = await startWith(t)
    await taken.request(`$JS.API.STREAM.CREATE.${name}`, { name, subjects: ['other'] })
    await lacks(taken, /another program made it/)
    const fine = await startWith(t)
    assert.match(await checkSettings(fine, { 'cluster.prefix': 'test.lacks' }), /^cluster: NATS answers$/m)
    assert.equal((await fine.request(`$JS.API.STREAM.INFO.${name}`)).error.code, 404)
    const small = await startWith(t, 'accounts { A { jetstream { max_file: 1M }, users: [{ user: a, password: b }] } }')
    const url = small.url.replace('nats://', 'nats://a:b@')
    await assert.rejects(startMachines([[url]]), /raise the limits of JetStream or of the account/)
    await small.kill()
    await assert.rejects(checkSettings(small, {}), /cannot connect to NATS|cluster: /)
  })
})
