// Several processes behind one port, as clients meet them: as one server, of which a part may die.

import assert from 'node:assert/strict'
import { Agent, request as httpRequest } from 'node:http'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'

import { connect, freshTopic, ways } from '../lib/client.mjs'
import { newest } from '../lib/generations.mjs'
import { Poll } from '../lib/poll.mjs'
import { startChat, startWatchfire } from '../lib/server.mjs'
import { SOON_MS, until, within } from '../lib/waiting.mjs'
import { Wire } from '../lib/wire.mjs'

const PROCESSES = 3
/** So many that no process is left out, but for once in more years than this code will live. */
const CROWD = 60

const isEvent = (name) => ([, , , event]) => event === name
const newestWay = ways.find(({ generation, isPoll }) => generation === newest && !isPoll)

/** Clients that are at all processes. */
function crowd(t, server, count = CROWD) {
  return Promise.all(Array.from({ length: count }, () => Wire.open(t, server)))
}

describe('a server of several processes', () => {
  let server
  before(async () => (server = await startWatchfire({ processes: PROCESSES, settings: { 'server.drain_period': '100ms', 'socket.sprites_window': '1s' } })))
  after(() => server.stop())

  it('is as many processes as it was told, and one that watches them', () => {
    assert.equal(server.workers().length, PROCESSES)
    assert.ok(server.lines.includes(`${PROCESSES} processes keep the fire.`), server.lines.join('\n'))
  })

  it('carries a message to everyone in a room, wherever they are, once', async (t) => {
    const topic = freshTopic('rooms')
    const wires = await crowd(t, server)
    await Promise.all(wires.map((wire) => wire.join(topic)))
    for (const [n, wire] of wires.entries()) wire.say([null, null, topic, 'new_msg', { n }])
    for (const wire of wires) {
      const heard = []
      while (heard.length < CROWD) heard.push((await wire.hear(isEvent('new_msg')))[4].n)
      assert.deepEqual(heard.toSorted((a, b) => a - b), [...wires.keys()])
    }
  })

  it('has a room ready when a join is answered: what is said after it arrives', async (t) => {
    const [speaker, ...listeners] = await crowd(t, server, 13)
    for (const listener of listeners) {
      const topic = freshTopic('rooms')
      await listener.join(topic, {}, topic)
      await speaker.join(topic, {}, topic)
      speaker.say([topic, '2', topic, 'new_msg', { topic }])
      const [, , , , said] = await listener.hear(isEvent('new_msg'))
      assert.deepEqual(said, { topic })
    }
  })

  it('answers a leave that overtakes its join, and joins nobody who left', async (t) => {
    const [one, other] = await crowd(t, server, 2)
    const topic = freshTopic('rooms')
    one.say(['1', '1', topic, 'phx_join', {}])
    one.say(['1', '2', topic, 'phx_leave', {}])
    await one.hear(([, ref]) => ref === '2')
    await other.join(topic)
    other.say([null, null, topic, 'new_msg', { n: 1 }])
    await other.hear(isEvent('new_msg'))
    const [, , , , reply] = await one.ask([null, '3', topic, 'new_msg', {}])
    assert.deepEqual(reply, { status: 'error', response: { reason: 'unmatched topic' } })
  })

  it('counts all its visitors, and tells them at every process', async (t) => {
    const wires = await crowd(t, server)
    await Promise.all(wires.map((wire) => wire.join('site')))
    for (const wire of wires) {
      await wire.hear(([, , , event, body]) => event === 'visitors' && body.visitors === CROWD, `${CROWD} visitors`)
    }
  })

  it('counts the nodes of a page apart from its tabs, at every process', async (t) => {
    const wires = await crowd(t, server)
    const topic = 'page:bafkreieq5jui4j25lacwomsqgjeswwl3y5zcdrresptwgmfylxo2depppq'
    const nodes = wires.filter((_, i) => i % 3 === 0)
    const holders = nodes.slice(0, 2)
    const counts = { watching: CROWD, holders: holders.length, partial: 0, nodes: { watching: nodes.length, holders: holders.length, partial: 0 } }
    await Promise.all(wires.map((wire) => {
      const kind = nodes.includes(wire) ? { kind: 'node' } : {}
      return wire.join(topic, { have: holders.includes(wire) ? 'all' : 'none', ...kind })
    }))
    const rest = wires.filter((wire) => !nodes.includes(wire))
    // Who joined last has read them in its reply: of a change everyone hears.
    await Promise.all(rest.map((wire) => wire.ask(['join', 'have', topic, 'have', { have: 'some' }])))
    counts.partial = rest.length
    const isTold = ([, , of, event, body]) => of === topic && event === 'counts' && isDeepStrictEqual(body, counts)
    for (const wire of wires) await wire.hear(isTold, 'all counts')
    for (const wire of nodes) wire.destroy()
    delete counts.nodes
    Object.assign(counts, { watching: rest.length, holders: 0 })
    for (const wire of rest) await wire.hear(isTold, 'the counts without nodes')
  })

  it('adds its processes up at /metrics', async (t) => {
    await crowd(t, server)
    await until(async () => (await server.metric('watchfire_channels_websockets')) === CROWD, 'all sockets counted')
    assert.equal(await server.metric('watchfire_processes'), PROCESSES)
  })

  it('knows a long-poll session at whichever process its requests arrive', async (t) => {
    const topic = freshTopic('rooms')
    const sessions = await Promise.all(Array.from({ length: 12 }, () => openPoll(t, server)))
    for (const [n, session] of sessions.entries()) {
      await session.ask(['1', '1', topic, 'phx_join', {}])
      await session.ask(['1', '2', topic, 'new_msg', { n }])
    }
    for (const [n, session] of sessions.entries()) {
      // What was said just before somebody joined may still be on its way to their process.
      const due = new Set([...sessions.keys()].slice(n))
      while (due.size > 0) {
        for (const [, , , event, body] of await session.get()) if (event === 'new_msg') due.delete(body.n)
      }
    }
  })

  it('lets everyone on a plane be next to somebody, and throws across processes', async () => {
    const plane = `plane-${process.pid}`
    const players = []
    for (let n = 0; n < 9; n++) players.push(await sprites(server, plane, 'join', {}))
    const ids = new Set(players.map(({ peer }) => peer))
    assert.equal(ids.size, players.length)
    for (const { token, peer } of players) {
      const news = await polled(server, plane, token)
      for (const edge of ['left', 'right', 'up', 'down']) {
        assert.ok(ids.has(news.neighbours[edge]) && news.neighbours[edge] !== peer, JSON.stringify(news))
      }
    }
    for (const { token, peer } of players) {
      const thrown = await sprites(server, plane, 'throw', { token, sprite: peer, edge: 'right', at: 0.5, velocity: { x: 900, y: 0 } })
      assert.deepEqual(thrown, {})
    }
    // Each threw to the right, so each has one from its left.
    for (const { token } of players) {
      const { arrivals, neighbours } = await polled(server, plane, token, (news) => news.arrivals.length > 0)
      assert.deepEqual(arrivals.map(({ from }) => from), [neighbours.left])
    }
    for (const { token } of players) await sprites(server, plane, 'leave', { token })
  })

  it('gives a place back at whichever process its token comes to', async () => {
    const plane = `again-${process.pid}`
    const others = []
    for (let n = 0; n < 4; n++) others.push(await sprites(server, plane, 'join', {}))
    let { token, peer } = await sprites(server, plane, 'join', {})
    for (let n = 0; n < 6; n++) {
      const again = await sprites(server, plane, 'join', { token })
      assert.equal(again.peer, peer)
      const stale = token !== again.token
      if (stale) assert.equal((await post(server, `/sprites/${plane}/leave`, { token })).status, 410)
      token = again.token
    }
    for (const one of [...others, { token }]) await sprites(server, plane, 'leave', { token: one.token })
  })

  it('gives a place back however soon its token comes, also where it was not heard of yet', async () => {
    const planes = [1, 2, 3, 4].map((n) => `soon-${n}-${process.pid}`)
    const others = []
    for (const plane of planes) for (let n = 0; n < 6; n++) others.push({ plane, ...(await sprites(server, plane, 'join', {})) })
    for (let n = 0; n < 100; n++) {
      const plane = planes[n % planes.length]
      const { token, peer } = await sprites(server, plane, 'join', {})
      const again = await sprites(server, plane, 'join', { token })
      assert.equal(again.peer, peer)
      await sprites(server, plane, 'leave', { token: again.token })
    }
    for (const { plane, token } of others) await sprites(server, plane, 'leave', { token })
  })
})

describe('a server of several small processes', () => {
  const PLACES = 40
  let server
  before(async () => (server = await startWatchfire({ processes: PROCESSES, settings: { 'limits.sockets_max': PROCESSES * PLACES, 'server.drain_period': '100ms' } })))
  after(() => server.stop())

  it('finds a place for everyone while there is one, whatever holds the others', async (t) => {
    const plane = `full-${process.pid}`
    // Polls of sprites are neither websockets nor sessions of channels, and take up places all the same.
    for (let n = 0; n < 2.5 * PLACES; n++) await window(t, server, plane)
    const connections = () => server.metric('watchfire_edge_connections')
    await until(async () => (await connections()) >= 2.5 * PLACES, 'all are counted')
    const wires = await crowd(t, server, 16)
    const topic = freshTopic('rooms')
    await Promise.all(wires.map((wire) => wire.join(topic)))
  })
})

describe('when one of several processes is killed', () => {
  let server
  before(async () => (server = await startChat({ processes: PROCESSES })))
  after(() => server.stop())

  it('its own clients come back, and the others see just those go and come', async (t) => {
    const topic = freshTopic('presence')
    const visitors = await Promise.all(Array.from({ length: 24 }, (_, n) => enter(t, server, topic, `user ${n}`)))
    for (const visitor of visitors) await visitor.until((refs) => refs.size === visitors.length)
    const before = visitors[0].refs()

    const [victim] = server.workers()
    process.kill(victim, 'SIGKILL')
    await until(() => server.workers().length === PROCESSES && !server.workers().includes(victim), 'another in its place')
    const isLost = ({ client }) => client.closed.all.length > 0
    await until(() => visitors.some(isLost), 'some have lost their socket')
    const lost = visitors.filter(isLost).map(({ name }) => name)
    assert.ok(lost.length < visitors.length, 'the others have kept theirs')
    // Whoever was cut off is back, under another reference; whoever was not has kept theirs.
    for (const visitor of visitors) {
      await visitor.until((refs) => {
        const isRight = (name) => refs.has(name) && (refs.get(name) !== before.get(name)) === lost.includes(name)
        return refs.size === visitors.length && visitors.every(({ name }) => isRight(name))
      })
    }
  })

  it('a connection that comes while it is dead is served', async (t) => {
    const before = server.workers()
    for (const pid of before) process.kill(pid, 'SIGKILL')
    const wires = await crowd(t, server, 12)
    const topic = freshTopic('rooms')
    await Promise.all(wires.map((wire) => wire.join(topic)))
    await until(() => server.workers().length === PROCESSES, 'all are back')
    assert.ok(server.workers().every((pid) => !before.includes(pid)))
  })

  it('none is left when the one that watches them is killed', async (t) => {
    const doomed = await startChat({ processes: PROCESSES })
    t.after(() => doomed.kill())
    await crowd(t, doomed, 12)
    const workers = doomed.workers()
    assert.equal(workers.length, PROCESSES)
    doomed.kill()
    await until(() => workers.every((pid) => !isAlive(pid)), 'all end', 4 * SOON_MS)
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

/** Somebody who is present, with the newest phoenix. */
async function enter(t, server, topic, name) {
  const client = connect(t, server, newestWay)
  const { Presence } = newest
  const channel = client.socket.channel(topic, { user: name })
  const presence = new Presence(channel)
  client.socket.connect()
  await within(new Promise((resolve) => channel.join().receive('ok', resolve)), `${name} joins`)
  /** The reference under which everyone is there whom this visitor sees. */
  const refs = () => new Map(presence.list((user, { metas }) => [user, metas.map((meta) => meta.phx_ref).join()]))
  return { name, client, refs, until: (isIt) => until(() => isIt(refs()), `${name} sees who is there`, 4 * SOON_MS) }
}

/** A long-poll session whose every request is a connection of its own. */
async function openPoll(t, server) {
  const session = await Poll.open(server)
  return {
    get: async () => {
      const { status, messages } = await session.get({ headers: { Connection: 'close' } })
      assert.ok(status === 200 || status === 204, `status ${status}`)
      return messages.map((message) => JSON.parse(message))
    },
    ask: async (message) => {
      const headers = { 'Content-Type': 'application/x-ndjson', Connection: 'close' }
      const { status } = await session.postBody(JSON.stringify(message), headers)
      assert.equal(status, 200)
    },
  }
}

function post(server, path, body) {
  return fetch(server.http(path), { method: 'POST', body: JSON.stringify(body), headers: { Connection: 'close' } })
}

async function sprites(server, plane, verb, body) {
  const response = await post(server, `/sprites/${plane}/${verb}`, body)
  const told = await response.json()
  assert.equal(response.status, 200, JSON.stringify(told))
  return told
}

/** A window that has joined a plane and waits in a poll, on one connection. */
async function window(t, server, plane) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const ask = (method, path, body) =>
    new Promise((resolve, reject) => {
      const request = httpRequest(server.http(path), { agent, method }, (response) => {
        text(response).then((told) => (response.statusCode === 200 ? resolve(JSON.parse(told)) : reject(new Error(`${response.statusCode} ${told}`))), reject)
      })
      request.on('error', reject).end(body)
    })
  const { token } = await ask('POST', `/sprites/${plane}/join`, '{}')
  // It ends with its agent, when the test does.
  ask('GET', `/sprites/${plane}/poll?token=${token}`).catch(() => {})
}

/** Poll until there is an answer that is wanted. */
async function polled(server, plane, token, wanted = () => true) {
  for (;;) {
    const url = server.http(`/sprites/${plane}/poll?token=${token}`)
    const response = await fetch(url, { headers: { Connection: 'close' } })
    const news = await response.json()
    assert.equal(response.status, 200, JSON.stringify(news))
    if (wanted(news)) return news
  }
}
