// Machines of one server on NATS, and clients that look at them from each.

import assert from 'node:assert/strict'

import { collectEvents, connect, reply, newestWay } from './test-client.mjs'
import { newest } from './phoenix-clients.mjs'
import { startWatchfire } from './server.mjs'
import { waitUntil } from './deadlines.mjs'

export const RULES = `[{ pattern = "room:*", join = "anyone", publish = "clients", presence = true },
  { pattern = "kept:*", join = "anyone", publish = "clients", history = { messages = 10_000 } }]`
/** A machine that is silent counts as gone after six seconds; the rest is for a busy machine. */
const GONE_MS = 30_000

let clusters = 0

/**
 * Starts machines; each entry of `ways` has the NATS URLs of one, `processes` the number of its processes, and `more` its
 * further settings. The result has the `settings` of each, and the `prefix` of all.
 */
export async function startMachines(ways, { processes = ways.map(() => 1), more = ways.map(() => ({})) } = {}) {
  const prefix = `test.cluster-${++clusters}`
  const settings = ways.map((urls, at) => {
    const cluster = { 'cluster.nats': JSON.stringify(urls), 'cluster.prefix': prefix }
    return { 'channels.rules': RULES, 'server.drain_period': '100ms', ...cluster, ...more[at] }
  })
  const machines = await Promise.all(settings.map((settings, at) => startWatchfire({ settings, processes: processes[at] })))
  return Object.assign(machines, { prefix, settings })
}

/** A client of each machine, joined to the topic: its channel, messages and presence. */
export async function joinAll(t, machines, topic, way = newestWay) {
  return Promise.all(
    machines.map(async (machine) => {
      const client = connect(t, machine, way)
      const channel = client.socket.channel(topic, {})
      const presence = new newest.Presence(channel)
      const messages = collectEvents(channel, 'note')
      const { status } = await reply(channel.join())
      assert.equal(status, 'ok')
      return { client, channel, presence, messages, keys: () => Object.keys(presence.state).toSorted() }
    }),
  )
}

/** Waits until all members see the same number of people. */
export async function untilAllSee(members, count, what, ms = GONE_MS) {
  await waitUntil(() => members.every((member) => member.keys().length === count), what, ms)
  for (const member of members) assert.deepEqual(member.keys(), members[0].keys())
}
