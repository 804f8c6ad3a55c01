// A machine that starts, or is replaced by another version of its program, resets no history of the others.

import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'

import { api, API_KEY } from '../lib/http-api.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { faults, follow } from '../lib/followers.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { isRunning, startWatchfire } from '../lib/server.mjs'
import { connect, freshTopic, newestWay } from '../lib/test-client.mjs'

/** Enough that each machine writes the logs of some. */
const TOPICS = 12
/** A machine that was killed counts as gone after six seconds; the rest is for a busy machine. */
const ARRIVE_MS = 40_000

let clusters = 0

describe('three machines with histories', { skip: whyNoNats }, () => {
  before(buildNats)

  /** Starts NATS and the machines; `start` starts a machine again. Processes in `successors` end with the test. */
  async function begin(t, processes = 1) {
    const [nats] = await startNats(1)
    t.after(() => nats.kill())
    const settings = {
      'cluster.nats': nats.url,
      'cluster.prefix': `test.starts-${++clusters}`,
      'channels.rules': '[{ pattern = "kept:*", join = "anyone", history = { messages = 10_000 } }]',
      'api.key': API_KEY,
      'server.drain_period': '100ms',
    }
    const start = (port) => startWatchfire({ port, settings, processes })
    const machines = await Promise.all((await listeningPorts(3)).map(start))
    const successors = []
    t.after(async () => {
      for (const pid of successors) process.kill(pid, 'SIGTERM')
      await Promise.all(machines.map((machine) => machine.stop()))
    })
    return { machines, start, successors }
  }

  /** Followers of each topic, on these machines. */
  async function followAll(t, machines) {
    const topics = Array.from({ length: TOPICS }, () => freshTopic('kept'))
    const pairs = machines.flatMap((machine) => topics.map((topic) => [machine, topic]))
    const all = await Promise.all(pairs.map(([machine, topic]) => follow(connect(t, machine, newestWay), topic)))
    return { topics, all }
  }

  const publishAll = (machine, topics, n) =>
    Promise.all(topics.map((topic) => api(machine, 'publish', { topic, event: 'note', payload: { n } })))

  async function assertAllArrived(all, last) {
    const late = () => all.filter(({ notes }) => notes.length < last).length
    await waitUntil(
      () => late() === 0,
      () => `all messages arrive; ${late()} clients lack some`,
      ARRIVE_MS,
    )
    for (const { notes, answers } of all) {
      // Messages that two machines publish have no order between them.
      const sorted = notes.toSorted((one, other) => one - other)
      assert.deepEqual(faults(sorted, last), { missing: [], disorder: [] })
      for (const { recovered } of answers.slice(1)) assert.equal(recovered, true)
    }
  }

  it('a machine that was killed answers only when its messages reach the others', async (t) => {
    const { machines, start } = await begin(t)
    const { topics, all } = await followAll(t, machines.slice(0, 2))
    let last = 0
    await publishAll(machines[0], topics, ++last)
    for (let round = 0; round < 2; round++) {
      const { port } = machines[2]
      machines[2].kill()
      await machines[2].exited()
      const starting = start(port)
      const answer = await waitUntil(() => fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null), 'the machine answers')
      assert.equal(answer.status, 200, await answer.text())
      await publishAll({ http: (path) => `http://127.0.0.1:${port}${path}` }, topics, ++last)
      machines[2] = await starting
      await publishAll(machines[0], topics, ++last)
    }
    await assertAllArrived(all, last)
    assert.deepEqual(
      all.map(({ answers }) => answers.length),
      all.map(() => 1),
      'no client joins again',
    )
  })

  for (const processes of [1, 2]) {
    it(`an upgrade of one machine after the other makes nobody reload, with ${processes} processes`, (t) => upgradeAll(t, processes))
  }

  async function upgradeAll(t, processes) {
    const { machines, successors } = await begin(t, processes)
    const { topics, all } = await followAll(t, machines)
    let last = 0
    for (const [at, machine] of machines.entries()) {
      const before = machine.workers()
      process.kill(machine.pid, 'SIGUSR2')
      successors.push(await waitUntil(() => machine.workers().find((pid) => !before.includes(pid)), 'the new program starts'))
      const other = machines[(at + 1) % machines.length]
      while (isRunning(machine.pid)) await publishAll(other, topics, ++last)
      await publishAll(machine, topics, ++last)
    }
    await assertAllArrived(all, last)
    assert.deepEqual(
      all.filter(({ answers }) => answers.length < 2),
      [],
      'each client has joined again',
    )
  }
})
