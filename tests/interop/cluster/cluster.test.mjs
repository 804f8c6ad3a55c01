// Several machines on NATS appear to clients as one server, also when a machine or a NATS server dies.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'

import { connect, freshTopic, reply, newestWay } from '../lib/test-client.mjs'
import { joinAll, startMachines, untilAllSee } from '../lib/machines.mjs'
import { Cuttable, buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { waitUntil } from '../lib/deadlines.mjs'

/** Sends numbered notes, one each 5 ms, until it is stopped; returns how many. */
function speak(channel, prefix) {
  let isStopped = false
  const run = (async () => {
    let count = 0
    while (!isStopped) {
      channel.push('note', { text: `${prefix} ${count++}` })
      await pause(5)
    }
    return count
  })()
  return () => {
    isStopped = true
    return run
  }
}

/** Asserts that a member gets every note of a speaker, once and in order. */
async function assertAllArrive(member, prefix, count) {
  const texts = () => member.messages.all.map(({ text }) => text).filter((text) => text.startsWith(`${prefix} `))
  await waitUntil(() => texts().length >= count, `${count} notes of ${prefix} arrive`)
  assert.deepEqual(
    texts(),
    Array.from({ length: count }, (_, at) => `${prefix} ${at}`),
  )
}

describe('a server of three machines', { skip: whyNoNats }, () => {
  let nats
  let machines
  before(async () => {
    await buildNats()
    nats = await startNats(3)
    const urls = nats.map(({ url }) => url)
    machines = await startMachines([urls, urls, urls], { processes: [2, 1, 3] })
  })
  after(async () => {
    await Promise.all(machines.map((machine) => machine.stop()))
    await Promise.all(nats.map((server) => server.kill()))
  })

  it('delivers messages and presence between machines', async (t) => {
    const members = await joinAll(t, machines, freshTopic('room'))
    await untilAllSee(members, 3, 'all see all three')
    for (const [at, { channel }] of members.entries()) channel.push('note', { text: `from ${at}` })
    for (const { messages } of members) {
      const texts = (await messages.take(3)).map(({ text }) => text)
      assert.deepEqual(texts.toSorted(), ['from 0', 'from 1', 'from 2'])
    }
    members[0].channel.leave()
    await untilAllSee(members.slice(1), 2, 'the others see that it left')
  })

  it('has links between all machines, in its metrics', async (t) => {
    await joinAll(t, machines, freshTopic('room'))
    await waitUntil(
      async () => (await Promise.all(machines.map((machine) => machine.metric('watchfire_cluster_links')))).every((links) => links > 0),
      'each machine has links to the others',
    )
  })
})

describe('faults of a server of three machines', { skip: whyNoNats }, () => {
  before(buildNats)

  it('removes the clients of a machine that is killed, and loses no message of the others', async (t) => {
    const nats = await startNats(3)
    const urls = nats.map(({ url }) => url)
    const machines = await startMachines([urls, urls, urls])
    t.after(() => Promise.all([...machines.slice(0, 2).map((machine) => machine.stop()), ...nats.map((server) => server.kill())]))
    const members = await joinAll(t, machines, freshTopic('room'))
    await untilAllSee(members, 3, 'all see all three')
    const stop = speak(members[0].channel, 'a')
    await members[1].messages.take(50)
    members[2].client.socket.disconnect()
    machines[2].kill()
    await untilAllSee(members.slice(0, 2), 2, 'the clients of the killed machine are gone')
    await assertAllArrive(members[1], 'a', await stop())
  })

  it('forgets a machine that hangs, and has it again afterwards', async (t) => {
    const nats = await startNats(1)
    const machines = await startMachines([[nats[0].url], [nats[0].url], [nats[0].url]])
    t.after(() => Promise.all([...machines.map((machine) => machine.stop()), nats[0].kill()]))
    const members = await joinAll(t, machines, freshTopic('room'))
    await untilAllSee(members, 3, 'all see all three')
    process.kill(machines[2].pid, 'SIGSTOP')
    try {
      await untilAllSee(members.slice(0, 2), 2, 'the clients of the machine that hangs are gone')
    } finally {
      process.kill(machines[2].pid, 'SIGCONT')
    }
    await untilAllSee(members, 3, 'all see all three again', 20_000)
  })

  it('has the same presence on all sides after a partition of twenty seconds', async (t) => {
    const nats = await startNats(1)
    const ways = await Promise.all([0, 1, 2].map(() => Cuttable.to(nats[0].port)))
    const machines = await startMachines(ways.map(({ url }) => [url]))
    t.after(() => Promise.all([...machines.map((machine) => machine.stop()), ...ways.map((way) => way.close()), nats[0].kill()]))
    const topic = freshTopic('room')
    const members = await joinAll(t, machines, topic)
    await untilAllSee(members, 3, 'all see all three')
    const start = performance.now()
    ways[2].cut()
    await untilAllSee(members.slice(0, 2), 2, 'one side sees its own')
    await untilAllSee(members.slice(2), 1, 'the other side sees its own')
    // Both sides change meanwhile.
    const late = await joinAll(t, [machines[0], machines[2]], topic)
    members[1].channel.leave()
    await waitUntil(() => members[0].keys().length === 2 && members[2].keys().length === 2, 'each side sees its changes')
    await pause(Math.max(0, 20_000 - (performance.now() - start)))
    ways[2].open()
    await untilAllSee([members[0], members[2], ...late], 4, 'all sides are one again', 20_000)
  })

  it('a client that was cut off gets what it missed on another machine, although one machine was killed meanwhile', async (t) => {
    const nats = await startNats(1)
    const machines = await startMachines([[nats[0].url], [nats[0].url], [nats[0].url]])
    t.after(() => Promise.all([...machines.slice(0, 2).map((machine) => machine.stop()), nats[0].kill()]))
    // Enough topics that each machine writes the logs of some.
    const topics = Array.from({ length: 12 }, () => freshTopic('kept'))
    const speakers = await Promise.all(topics.map(async (topic) => (await joinAll(t, [machines[0]], topic))[0]))
    /** Joins a topic after a position; collects the numbers of its notes, and the last position. */
    const follow = async (machine, topic, seen) => {
      const client = connect(t, machine, newestWay)
      const channel = client.socket.channel(topic, { history: { after: seen.position } })
      channel.on('note', ({ n }, position) => {
        seen.numbers.push(n)
        seen.position = position
      })
      const { status, response } = await reply(channel.join())
      assert.equal(status, 'ok')
      seen.position ??= response.position
      return { client, response }
    }
    const all = topics.map(() => ({ numbers: [], position: null }))
    const speak = (from, to) => {
      for (let n = from; n < to; n++) for (const { channel } of speakers) channel.push('note', { n })
    }
    const haveAll = (count) => waitUntil(() => all.every(({ numbers }) => numbers.length >= count), `all have ${count} notes`)

    const first = await Promise.all(topics.map((topic, at) => follow(machines[2], topic, all[at])))
    speak(0, 20)
    await haveAll(20)
    for (const { client } of first) client.socket.disconnect()
    speak(20, 40)
    // A message that nobody has received yet may be lost with the machine.
    await waitUntil(() => speakers.every(({ messages }) => messages.all.length === 40), 'another machine has delivered all notes')
    machines[2].kill()
    const gone = async () => (await machines[0].metric('watchfire_cluster_links')) === 1
    await waitUntil(gone, 'the first machine has noticed the loss')
    const again = await Promise.all(topics.map((topic, at) => follow(machines[1], topic, all[at])))
    assert.deepEqual(
      again.map(({ response }) => response.recovered),
      topics.map(() => true),
    )
    speak(40, 60)
    await haveAll(60)
    for (const { numbers } of all)
      assert.deepEqual(
        numbers,
        Array.from({ length: 60 }, (_, n) => n),
      )
  })

  it('is ready only when it has links to the machines that were there before it', async (t) => {
    const nats = await startNats(1)
    const machines = await startMachines([[nats[0].url], [nats[0].url], [nats[0].url]])
    t.after(() => Promise.all([...machines.map((machine) => machine.stop()), nats[0].kill()]))
    for (const machine of machines) {
      assert.equal(await machine.metric('watchfire_cluster_links'), 2)
      const { ready, conditions } = await (await fetch(machine.http('/readyz'))).json()
      assert.deepEqual({ ready, machines: conditions.machines }, { ready: true, machines: { ok: true } })
    }
    // So the first message of a client reaches a client of another machine.
    const members = await joinAll(t, machines, freshTopic('kept'))
    members[0].channel.push('note', { n: 1 })
    await waitUntil(() => members.every(({ messages }) => messages.all.length === 1), 'all have the note')
  })

  it('refuses a machine of another cluster with the same prefix', async (t) => {
    const nats = await startNats(1)
    const settings = { 'cluster.nats': JSON.stringify([nats[0].url]), 'cluster.prefix': 'test.keys' }
    const machine = await startWatchfire({ settings: { ...settings, 'cluster.key': 'a key of the first cluster' }, processes: 1 })
    t.after(() => Promise.all([machine.stop(), nats[0].kill()]))
    const other = startWatchfire({ settings: { ...settings, 'cluster.key': 'a key of another cluster' }, processes: 1 })
    await assert.rejects(other, /another cluster uses this prefix/)
  })
})
