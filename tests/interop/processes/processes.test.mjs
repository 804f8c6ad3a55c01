// Several processes behind one port appear to clients as one server, also when one of them dies.

import assert from 'node:assert/strict'
import { Agent, request as httpRequest } from 'node:http'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'

import { connect, freshTopic, newestWay } from '../lib/test-client.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { LongPollSession } from '../lib/long-poll.mjs'
import { ROOMS, startChat, startWatchfire } from '../lib/server.mjs'
import { SOON_MS, waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { RawWebSocket } from '../lib/raw-socket.mjs'

const PROCESSES = 3
/** Number of clients: enough that practically every process has some. */
const CROWD = 60

const isEvent =
  (name) =>
  ([, , , event]) =>
    event === name

/** Clients that are connected to all processes. */
function crowd(t, server, count = CROWD) {
  return Promise.all(Array.from({ length: count }, () => RawWebSocket.open(t, server)))
}

describe('a server of several processes', () => {
  let server
  before(
    async () =>
      (server = await startWatchfire({
        processes: PROCESSES,
        settings: { ...ROOMS, 'server.drain_period': '100ms', 'socket.sprites_window': '1s' },
      })),
  )
  after(() => server.stop())

  it('runs the configured number of processes, and a supervisor', () => {
    assert.equal(server.workers().length, PROCESSES)
    assert.ok(server.lines.includes(`${PROCESSES} processes are serving.`), server.lines.join('\n'))
  })

  it('replies to a leave that overtakes its join, and the client is not joined', async (t) => {
    const [one, other] = await crowd(t, server, 2)
    const topic = freshTopic('rooms')
    one.send(['1', '1', topic, 'phx_join', {}])
    one.send(['1', '2', topic, 'phx_leave', {}])
    await one.receive(([, ref]) => ref === '2')
    await other.join(topic)
    other.send([null, null, topic, 'new_msg', { n: 1 }])
    await other.receive(isEvent('new_msg'))
    const [, , , , reply] = await one.request([null, '3', topic, 'new_msg', {}])
    assert.deepEqual(reply, { status: 'error', response: { reason: 'unmatched topic' } })
  })

  it('counts all its visitors, and shows them in every process', async (t) => {
    const sockets = await crowd(t, server)
    await Promise.all(sockets.map((socket) => socket.join('site')))
    for (const socket of sockets) {
      await socket.receive(([, , , event, body]) => event === 'visitors' && body.visitors === CROWD, `${CROWD} visitors`)
    }
  })

  it('counts the members of a room, and names some of them, in every process', async (t) => {
    const topic = freshTopic('rooms')
    const sockets = await crowd(t, server)
    await Promise.all(sockets.map((socket, n) => socket.join(topic, { user: `user ${n}` })))
    const counts =
      (count) =>
      ([, , , event, body]) =>
        event === 'members' && body.count === count
    for (const socket of sockets) {
      const [, , , , { users }] = await socket.receive(counts(CROWD), `${CROWD} members`)
      assert.equal(new Set(users).size, 50)
    }
    for (const socket of sockets.splice(0, 20)) socket.destroy()
    for (const socket of sockets) {
      const [, , , , { users }] = await socket.receive(counts(CROWD - 20), 'those who are left')
      assert.equal(users.length, CROWD - 20)
    }
  })

  it('counts the nodes of a page apart from its tabs, in every process', async (t) => {
    const sockets = await crowd(t, server)
    const topic = 'page:bafkreieq5jui4j25lacwomsqgjeswwl3y5zcdrresptwgmfylxo2depppq'
    const nodes = sockets.filter((_, i) => i % 3 === 0)
    const holders = nodes.slice(0, 2)
    const counts = {
      watching: CROWD,
      holders: holders.length,
      partial: 0,
      nodes: { watching: nodes.length, holders: holders.length, partial: 0 },
    }
    await Promise.all(
      sockets.map((socket) => {
        const kind = nodes.includes(socket) ? { kind: 'node' } : {}
        return socket.join(topic, { have: holders.includes(socket) ? 'all' : 'none', ...kind })
      }),
    )
    const rest = sockets.filter((socket) => !nodes.includes(socket))
    // The last peer to join has the counts from its reply. All peers receive later changes.
    await Promise.all(rest.map((socket) => socket.request(['join', 'have', topic, 'have', { have: 'some' }])))
    counts.partial = rest.length
    const isExpected = ([, , of, event, body]) => of === topic && event === 'counts' && isDeepStrictEqual(body, counts)
    for (const socket of sockets) await socket.receive(isExpected, 'all counts')
    for (const socket of nodes) socket.destroy()
    delete counts.nodes
    Object.assign(counts, { watching: rest.length, holders: 0 })
    for (const socket of rest) await socket.receive(isExpected, 'the counts without nodes')
  })

  it('adds up its processes at /metrics', async (t) => {
    await crowd(t, server)
    await waitUntil(
      async () => (await server.metric('watchfire_channels_clients', 'transport="websocket"')) === CROWD,
      'all sockets counted',
    )
    assert.equal(await server.metric('watchfire_processes'), PROCESSES)
  })

  it('gives everyone on a grid a neighbour, and throws across processes', async () => {
    const grid = `grid-${process.pid}`
    const players = []
    for (let n = 0; n < 9; n++) players.push(await sprites(server, grid, 'join', {}))
    const ids = new Set(players.map(({ peer }) => peer))
    assert.equal(ids.size, players.length)
    for (const { token, peer } of players) {
      const news = await polled(server, grid, token)
      for (const edge of ['left', 'right', 'up', 'down']) {
        assert.ok(ids.has(news.neighbours[edge]) && news.neighbours[edge] !== peer, JSON.stringify(news))
      }
    }
    for (const { token, peer } of players) {
      const thrown = await sprites(server, grid, 'throw', { token, sprite: peer, edge: 'right', at: 0.5, velocity: { x: 900, y: 0 } })
      assert.deepEqual(thrown, {})
    }
    // Each threw to the right, so each receives one from its left.
    for (const { token } of players) {
      const { arrivals, neighbours } = await polled(server, grid, token, (news) => news.arrivals.length > 0)
      assert.deepEqual(
        arrivals.map(({ from }) => from),
        [neighbours.left],
      )
    }
    for (const { token } of players) await sprites(server, grid, 'leave', { token })
  })

  it('returns a slot in any process that its token reaches', async () => {
    const grid = `again-${process.pid}`
    const others = []
    for (let n = 0; n < 4; n++) others.push(await sprites(server, grid, 'join', {}))
    let { token, peer } = await sprites(server, grid, 'join', {})
    for (let n = 0; n < 6; n++) {
      const again = await sprites(server, grid, 'join', { token })
      assert.equal(again.peer, peer)
      const stale = token !== again.token
      if (stale) assert.equal((await post(server, `/sprites/${grid}/leave`, { token })).status, 410)
      token = again.token
    }
    for (const one of [...others, { token }]) await sprites(server, grid, 'leave', { token: one.token })
  })

  it('returns a slot even if its token is used at once, in a process that does not know it yet', async () => {
    const grids = [1, 2, 3, 4].map((n) => `soon-${n}-${process.pid}`)
    const others = []
    for (const grid of grids) for (let n = 0; n < 6; n++) others.push({ grid, ...(await sprites(server, grid, 'join', {})) })
    for (let n = 0; n < 100; n++) {
      const grid = grids[n % grids.length]
      const { token, peer } = await sprites(server, grid, 'join', {})
      const again = await sprites(server, grid, 'join', { token })
      assert.equal(again.peer, peer)
      await sprites(server, grid, 'leave', { token: again.token })
    }
    for (const { grid, token } of others) await sprites(server, grid, 'leave', { token })
  })
})

describe('a server of several processes with low limits', () => {
  const SOCKETS_PER_PROCESS = 40
  let server
  before(
    async () =>
      (server = await startWatchfire({
        processes: PROCESSES,
        settings: { ...ROOMS, 'limits.sockets_max': PROCESSES * SOCKETS_PER_PROCESS, 'server.drain_period': '100ms' },
      })),
  )
  after(() => server.stop())

  it('accepts a connection while any process has room', async (t) => {
    const grid = `full-${process.pid}`
    // Sprite polls are neither WebSockets nor channel sessions, but they also count against the limit.
    for (let n = 0; n < 2.5 * SOCKETS_PER_PROCESS; n++) await pollOnGrid(t, server, grid)
    const connections = () => server.metric('watchfire_sockets_connections')
    await waitUntil(async () => (await connections()) >= 2.5 * SOCKETS_PER_PROCESS, 'all are counted')
    const sockets = await crowd(t, server, 16)
    const topic = freshTopic('rooms')
    await Promise.all(sockets.map((socket) => socket.join(topic)))
  })
})

describe('when one of several processes is killed', () => {
  let server
  before(async () => (server = await startChat({ processes: PROCESSES })))
  after(() => server.stop())

  it('its clients reconnect, and all others see only these leave and join', async (t) => {
    const topic = freshTopic('presence')
    const visitors = await Promise.all(Array.from({ length: 24 }, (_, n) => enter(t, server, topic, `user ${n}`)))
    for (const visitor of visitors) await visitor.until((refs) => refs.size === visitors.length)
    const before = visitors[0].refs()

    const [victim] = server.workers()
    process.kill(victim, 'SIGKILL')
    await waitUntil(() => server.workers().length === PROCESSES && !server.workers().includes(victim), 'the worker is replaced')
    const isLost = ({ client }) => client.closed.all.length > 0
    await waitUntil(() => visitors.some(isLost), 'some clients have lost their socket')
    const lost = visitors.filter(isLost).map(({ name }) => name)
    assert.ok(lost.length < visitors.length, 'all clients lost their socket')
    // Clients that were cut off are back under another reference; all others kept theirs.
    for (const visitor of visitors) {
      await visitor.until((refs) => {
        const isRight = (name) => refs.has(name) && (refs.get(name) !== before.get(name)) === lost.includes(name)
        return refs.size === visitors.length && visitors.every(({ name }) => isRight(name))
      })
    }
  })

  it('the operator is still answered, at the same address', async () => {
    for (const victim of server.workers()) {
      process.kill(victim, 'SIGKILL')
      await waitUntil(() => !server.workers().includes(victim), 'it has ended')
      // A request fails if the victim had accepted its connection. The next one reaches another worker.
      const counted = () => server.metric('watchfire_processes').catch(() => 0)
      await waitUntil(async () => (await counted()) >= PROCESSES - 1, 'the others answer')
      await waitUntil(async () => (await counted()) === PROCESSES, 'the replacement answers')
    }
  })

  it('a connection that arrives while no process runs is served later', async (t) => {
    const before = server.workers()
    for (const pid of before) process.kill(pid, 'SIGKILL')
    const sockets = await crowd(t, server, 12)
    const topic = freshTopic('rooms')
    await Promise.all(sockets.map((socket) => socket.join(topic)))
    await waitUntil(() => server.workers().length === PROCESSES, 'all are back')
    assert.ok(server.workers().every((pid) => !before.includes(pid)))
  })

  it('all processes end when the supervisor is killed', async (t) => {
    const killed = await startChat({ processes: PROCESSES })
    t.after(() => killed.kill())
    await crowd(t, killed, 12)
    const workers = killed.workers()
    assert.equal(workers.length, PROCESSES)
    killed.kill()
    await waitUntil(() => workers.every((pid) => !isAlive(pid)), 'all workers end', 4 * SOON_MS)
  })
})

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** A member of a presence topic, with the newest phoenix. */
async function enter(t, server, topic, name) {
  const client = connect(t, server, newestWay)
  const { Presence } = newest
  const channel = client.socket.channel(topic, { user: name })
  const presence = new Presence(channel)
  client.socket.connect()
  await withTimeout(new Promise((resolve) => channel.join().receive('ok', resolve)), `${name} joins`)
  /** The reference of each user that this member sees. */
  const refs = () => new Map(presence.list((user, { metas }) => [user, metas.map((meta) => meta.phx_ref).join()]))
  return { name, client, refs, until: (isIt) => waitUntil(() => isIt(refs()), `${name} sees the expected members`, 4 * SOON_MS) }
}

/** A long-poll session that uses a new connection for every request. */
async function _openPoll(server) {
  const session = await LongPollSession.open(server)
  return {
    get: async () => {
      const { status, messages } = await session.get({ headers: { Connection: 'close' } })
      assert.ok(status === 200 || status === 204, `status ${status}`)
      return messages.map((message) => JSON.parse(message))
    },
    request: async (message) => {
      const headers = { 'Content-Type': 'application/x-ndjson', Connection: 'close' }
      const { status } = await session.postBody(JSON.stringify(message), headers)
      assert.equal(status, 200)
    },
  }
}

function post(server, path, body) {
  return fetch(server.http(path), { method: 'POST', body: JSON.stringify(body), headers: { Connection: 'close' } })
}

async function sprites(server, grid, verb, body) {
  const response = await post(server, `/sprites/${grid}/${verb}`, body)
  const reply = await response.json()
  assert.equal(response.status, 200, JSON.stringify(reply))
  return reply
}

/** Joins a grid and waits in a poll, on one connection. */
async function pollOnGrid(t, server, grid) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const sendRequest = (method, path, body) =>
    new Promise((resolve, reject) => {
      const request = httpRequest(server.http(path), { agent, method }, (response) => {
        text(response).then(
          (reply) => (response.statusCode === 200 ? resolve(JSON.parse(reply)) : reject(new Error(`${response.statusCode} ${reply}`))),
          reject,
        )
      })
      request.on('error', reject).end(body)
    })
  const { token } = await sendRequest('POST', `/sprites/${grid}/join`, '{}')
  // The poll ends with its agent, when the test ends.
  sendRequest('GET', `/sprites/${grid}/poll?token=${token}`).catch(() => {})
}

/**
 * Polls until there is a wanted result.
 * @param {(news: any) => boolean} [wanted]
 */
async function polled(server, grid, token, wanted = () => true) {
  for (;;) {
    const url = server.http(`/sprites/${grid}/poll?token=${token}`)
    const response = await fetch(url, { headers: { Connection: 'close' } })
    const news = await response.json()
    assert.equal(response.status, 200, JSON.stringify(news))
    if (wanted(news)) return news
  }
}
