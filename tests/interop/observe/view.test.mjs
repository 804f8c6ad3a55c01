// The operator's calls on a server of several processes and machines: each answers for all.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { WebSocket } from 'ws'

import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { join } from '../lib/room-sockets.mjs'
import { ROOMS, binary, startWatchfire } from '../lib/server.mjs'

const TOKEN = 'a token of the operator'
const CLIENTS = 60

describe('the operator of three processes', () => {
  const folder = newFolder()
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
    assert.equal(
      state.processes.reduce((sum, { clients: count }) => sum + count, 0),
      CLIENTS,
    )
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
    assert.deepEqual(
      topics.map(({ topic, subscribers }) => [topic, subscribers]),
      [
        ['rooms:others', (CLIENTS / 3) * 2],
        ['rooms:some', CLIENTS / 3],
      ],
    )
    assert(topics[0].loops > 1 && topics[0].owned < topics[0].subscribers, 'the owner has a part of the subscribers')
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

  it('watches the messages of a connection of any', async () => {
    const { connections } = await call(server, '/admin/connections?transport=websocket&limit=200&topic=rooms:some')
    const { id } = connections.find(({ id: name }) => name.startsWith('2-')) ?? connections.at(-1)
    const watch = () => call(server, `/admin/connections/${id}/messages`)
    assert.deepEqual((await watch()).messages, [])
    clients
      .find(({ readyState }, n) => n % 3 === 0 && readyState === WebSocket.OPEN)
      .send(JSON.stringify(['1', '2', 'rooms:some', 'new_msg', {}]))
    const { messages } = await waitUntil(async () => {
      const watched = await watch()
      return watched.messages.some(({ direction }) => direction === 'sent') && watched
    }, 'the message was sent to the connection')
    assert(messages.every(({ topic }) => topic === 'rooms:some'))
  })

  it('marks the begin and the end of a load', async () => {
    const scenario = path.join(folder, 'short.toml')
    writeFileSync(
      scenario,
      `[[targets]]\nurl = "ws://localhost:${server.port}"\n\n[[phases]]\nname = "one"\nduration = "1s"\nrate = 2\n\n[[sessions]]\nname = "user"\nprobability = 100\nsteps = [{ connect = { path = "/socket/websocket?vsn=2.0.0" } }]\n`,
    )
    const operator = new URL(await server.admin('/')).origin
    const load = (/** @type {string} */ token) => {
      const options = ['load', scenario, '--operator', operator, '--json', `${folder}/load.json`, '--report', `${folder}/load.html`]
      const env = { ...process.env, WATCHFIRE_ADMIN_TOKEN: token }
      const { status, stdout, stderr } = spawnSync(binary('watchfire'), options, { encoding: 'utf8', env })
      assert.equal(status, 0, stderr)
      return { stdout, stderr, ...JSON.parse(readFileSync(`${folder}/load.json`, 'utf8')) }
    }
    // A load without the token runs, and says what its reader lacks.
    const cause = `${operator} requires the operator's token in WATCHFIRE_ADMIN_TOKEN`
    for (const token of ['', 'wrong']) {
      const { stdout, stderr, counts, without_mark } = load(token)
      assert.equal(stderr, `warning: the operator's page does not show this load: ${cause}\n`)
      assert.deepEqual([counts.finished, without_mark], [2, cause])
      for (const report of [stdout, readFileSync(`${folder}/load.html`, 'utf8')]) {
        assert(report.includes(`the server's figures have no mark of this load: ${cause}`), report)
      }
    }
    const { stderr, without_mark } = load(TOKEN)
    assert.deepEqual([stderr, without_mark], ['', null])
    const notes = (await call(server, '/admin/events')).events.filter(({ kind }) => kind === 'note')
    assert.deepEqual(
      notes.map(({ text }) => text),
      ['The load short.toml began', 'The load short.toml ended'],
    )
  })

  it('denies an address in all, closes its connections, and allows it again', async () => {
    const { disconnected } = await call(server, '/admin/addresses/denied/127.0.0.1', 'PUT')
    assert(disconnected >= CLIENTS - 1, `${disconnected} are closed`)
    await waitUntil(() => clients.every(({ readyState }) => readyState === WebSocket.CLOSED), 'all clients are closed')
    // Each new connection may be answered by another process.
    const status = async () =>
      (await fetch(server.http('/healthz').replace('localhost', '127.0.0.1'), { headers: { connection: 'close' } })).status
    for (let n = 0; n < 12; n++) assert.equal(await status(), 403)
    await call(server, '/admin/addresses/denied/127.0.0.1', 'DELETE')
    const allowed = async () => (await Promise.all(Array.from({ length: 12 }, status))).every((one) => one === 200)
    await waitUntil(allowed, 'each process answers again')
    // Whichever process answers, the first one of the machine has the event.
    for (let n = 0; n < 5; n++) await call(server, '/admin/addresses/denied/192.0.2.1', 'PUT')
    const { events } = await call(server, '/admin/events')
    assert.equal(events.filter(({ kind }) => kind === 'address_denied').length, 6)
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

it('records once that processes are lost and are back, although the recorder sees both at the same moment', async (t) => {
  const server = await startWatchfire({ processes: 4, settings: { 'log.level': 'info,watchfire::multi_process=debug' } })
  t.after(() => server.stop())
  const [recorder, ...workers] = server.workers()
  process.kill(recorder, 'SIGSTOP')
  for (const worker of workers) process.kill(worker, 'SIGKILL')
  const hasLinks = (pid) =>
    readdirSync(`/proc/${pid}/task`).some((task) => readFileSync(`/proc/${pid}/task/${task}/comm`, 'utf8') === 'bus\n')
  const started = () => server.workers().filter((pid) => pid !== recorder && !workers.includes(pid))
  await waitUntil(() => started().filter(hasLinks).length === workers.length, 'new processes have their links')
  process.kill(recorder, 'SIGCONT')
  const kinds = async () => (await call(server, '/admin/events')).events.map(({ kind }) => kind)
  await waitUntil(async () => (await kinds()).filter((kind) => kind === 'process_up').length >= workers.length, 'the returns are events')
  await waitUntil(async () => (await call(server, '/admin/state')).processes.length === 4, 'all have figures')
  assert.equal((await kinds()).filter((kind) => kind.startsWith('process_')).length, 2 * workers.length)
  assert.doesNotMatch(server.stderr, /Relinked/, 'no new link is lost')
})

describe('the record', () => {
  it('outlives kill -9, and top prints a moment of it', async (t) => {
    const settings = { ...ROOMS, 'admin.history_file': path.join(newFolder(t), 'history') }
    const start = async () => {
      const server = await startWatchfire({ processes: 1, settings })
      t.after(() => server.kill())
      return server
    }
    const first = await start()
    const clients = await Promise.all(Array.from({ length: 3 }, () => join(first, 'rooms:past')))
    t.after(() => {
      for (const client of clients) client.terminate()
    })
    const rows = async (server) => {
      const { columns, rows } = await call(server, '/admin/history')
      const at = columns.indexOf('clients_websocket') + 1
      return rows.map((row) => ({ ms: row[0], clients: row[at] }))
    }
    const hadAll = await waitUntil(async () => (await rows(first)).find((row) => row.clients === 3), 'the record has the clients')
    await first.kill()

    const second = await start()
    await waitUntil(async () => (await rows(second)).some((row) => row.ms === hadAll.ms), 'the file is read')
    await waitUntil(async () => (await rows(second)).at(-1).clients === 0, 'the clients are gone')
    const operator = new URL(await second.admin('/')).origin
    const top = (moment) => spawnSync(binary('watchfire'), ['top', '--operator', operator, '--at', moment], { encoding: 'utf8' })
    const { stdout, stderr } = top(`${new Date(hadAll.ms + 999).toISOString().slice(0, 19)}Z`)
    assert.equal(stderr, '')
    assert.match(stdout, /^clients +3 /m)
    assert.match(stdout, /No trouble\.\n\nEvents from 5 minutes before to 5 minutes after:\n.*Version \S+ started/)
    assert.match(top('2020-02-03 04:05').stdout, /^The record has no figures of 2020-02-03 04:05:00 UTC\./)
    assert.match(top('noon').stderr, /"noon" is not a moment/)
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
    assert.deepEqual(
      connections.map(({ topics }) => topics),
      [['rooms:far']],
    )
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
