// The operator's calls on a server of several processes and machines: each answers for all.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { WebSocket } from 'ws'

import { waitUntil } from '../lib/deadlines.mjs'
import { buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { join } from '../lib/room-sockets.mjs'
import { ROOMS, startWatchfire } from '../lib/server.mjs'

const TOKEN = 'a token of the operator'
const CLIENTS = 60

describe('the operator of three processes', () => {
  let server
  const clients = []

  before(async () => {
    server = await startWatchfire({ processes: 3, settings: { ...ROOMS, 'admin.token': TOKEN } })
    for (let n = 0; n < CLIENTS; n++) clients.push(await join(server, n % 3 === 0 ? 'rooms:some' : 'rooms:others'))
  })

  after(async () => {
    for (const client of clients) client.terminate()
    await server?.stop()
  })

  it('sees the clients of all', async () => {
    const state = await waitUntil(async () => {
      const now = await call(server, '/admin/state')
      return now.latest?.clients_websocket === CLIENTS && now
    }, 'the state has all clients')
    assert.equal(state.processes.length, 3)
    assert.equal(state.processes.reduce((sum, { clients: count }) => sum + count, 0), CLIENTS)
    assert(state.processes.filter(({ clients: count }) => count > 0).length > 1, 'the clients are in several processes')
    assert.deepEqual(state.missing_processes, [])
  })

  it('finds connections and topics in all', async () => {
    // Each new connection to the listener may be answered by another process.
    for (let n = 0; n < 10; n++) {
      const { connections } = await call(server, '/admin/connections?transport=websocket&limit=200&topic=rooms:some')
      assert.equal(connections.length, CLIENTS / 3)
      assert(new Set(connections.map(({ id }) => id.split('-')[0])).size > 1)
    }
    const { topics } = await call(server, '/admin/topics?limit=2')
    assert.deepEqual(topics, [
      { topic: 'rooms:others', subscribers: (CLIENTS / 3) * 2 },
      { topic: 'rooms:some', subscribers: CLIENTS / 3 },
    ])
  })

  it('closes a connection of any', async () => {
    const { connections } = await call(server, '/admin/connections?transport=websocket&limit=200')
    const last = connections.find(({ id }) => id.startsWith('2-')) ?? connections.at(-1)
    const open = () => clients.filter(({ readyState }) => readyState === WebSocket.OPEN).length
    assert.deepEqual(await call(server, `/admin/connections/${last.id}/disconnect`, 'POST'), { disconnected: true })
    await waitUntil(() => open() === CLIENTS - 1, 'one client is closed')
  })

  it('changes the level of the log of all', async () => {
    assert.deepEqual(await call(server, '/admin/log?level=warn', 'PUT'), { level: 'warn', processes: 3 })
    assert.deepEqual(await call(server, '/admin/log?level=info', 'PUT'), { level: 'info', processes: 3 })
  })

  it('sees that a process is lost and serves again', async () => {
    const worker = server.workers().at(-1)
    process.kill(worker, 'SIGKILL')
    const kinds = async () => (await call(server, '/admin/events')).events.map(({ kind }) => kind)
    await waitUntil(async () => (await kinds()).includes('process_lost'), 'the loss is an event')
    await waitUntil(async () => (await kinds()).includes('process_up'), 'the return is an event')
    await waitUntil(async () => (await call(server, '/admin/state')).processes.length === 3, 'all three are back')
  })
})

describe('the operator of two machines', { skip: whyNoNats }, () => {
  let nats
  const machines = []

  before(async () => {
    await buildNats()
    nats = await startNats(1)
    const settings = { ...ROOMS, 'cluster.nats': nats[0].url }
    for (const processes of [1, 2]) machines.push(await startWatchfire({ processes, settings }))
  })

  after(async () => {
    for (const machine of machines) await machine.stop()
    await nats?.[0].kill()
  })

  it('sees each from the other', async () => {
    const client = await join(machines[1], 'rooms:far')
    const names = await waitUntil(async () => {
      const { machines: all } = await call(machines[0], '/admin/state')
      return all.length === 2 && all
    }, 'the first machine knows the second')
    const { machine: own } = await call(machines[0], '/admin/state')
    const other = names.find((name) => name !== own)
    const of = `machine=${encodeURIComponent(other)}`
    const state = await waitUntil(async () => {
      const now = await call(machines[0], `/admin/state?${of}`)
      return now.latest?.clients_websocket === 1 && now
    }, 'the state of the second machine has its client')
    assert.deepEqual([state.machine, state.processes.length], [other, 2])
    const { connections } = await call(machines[0], `/admin/connections?transport=websocket&${of}`)
    assert.deepEqual(connections.map(({ topics }) => topics), [['rooms:far']])
    assert((await call(machines[0], `/admin/history?${of}`)).rows.length > 0)
    client.terminate()
  })

  it('sees that one is gone', async () => {
    machines[1].kill()
    const gone = async () => (await call(machines[0], '/admin/events')).events.some(({ kind }) => kind === 'machine_lost')
    await waitUntil(gone, 'the loss is an event', 30_000)
    machines.pop()
    assert.equal((await call(machines[0], '/admin/state')).machines.length, 1)
  })
})

async function call(server, pathname, method = 'GET') {
  const response = await fetch(await server.admin(pathname), { method, headers: { authorization: `Bearer ${TOKEN}`, connection: 'close' } })
  const body = await response.json()
  assert.equal(response.status, 200, JSON.stringify(body))
  return body
}
