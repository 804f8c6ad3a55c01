// Invalid input ends with a clear close or a clear error, and other clients are not affected.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'

import { connect, freshTopic, collectEvents, reply, variants } from '../lib/test-client.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { ROOMS, processesOfAll, startChat, startWatchfire } from '../lib/server.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { RawWebSocket, binaryPush, openTcp, frame, frameHead, opcode, request, upgradeHeaders } from '../lib/raw-socket.mjs'

const MIB = 2 ** 20
const heartbeat = (ref) => [null, ref, 'phoenix', 'heartbeat', {}]

/**
 * The most CPU time that the server spends while a request of a well-behaved client waits, in seconds. The wait itself tells little:
 * it is also the work of this process and of other programs.
 */
const WORK_SECONDS_MAX = 1
/** A wait that no work explains: the server hangs. */
const HANG_MS = 60_000

let server
before(async () => (server = await startChat()))
after(() => server.stop())

/** A test during which well-behaved clients of the same server keep working, on each transport. */
function itUnnoticedByOthers(name, run) {
  it(name, async (t) => {
    const bystanders = await Promise.all(variants.filter(({ library }) => library === newest).map((variant) => Bystander.join(t, variant)))
    const watches = Promise.all(bystanders.map((bystander) => bystander.watch()))
    try {
      await Promise.race([watches, run(t)])
    } finally {
      for (const bystander of bystanders) bystander.isOver = true
      await watches
    }
  })
}

/** A well-behaved client that expects its replies in time. */
class Bystander {
  isOver = false
  client
  channel

  static async join(t, variant) {
    const bystander = new Bystander()
    bystander.client = connect(t, server, variant, { timeout: HANG_MS })
    bystander.channel = await bystander.client.join(freshTopic())
    return bystander
  }

  async watch() {
    const { name } = this.client.variant
    for (let n = 0; !this.isOver; n++) {
      const before = server.cpuSeconds()
      const answer = await reply(this.channel.push('ping', { n }), `${name} gets a reply`, HANG_MS)
      assert.deepEqual(answer, { status: 'ok', response: { n } })
      const work = server.cpuSeconds() - before
      assert.ok(work < WORK_SECONDS_MAX, `the server worked for ${work} s while ${name} waited`)
      await pause(5)
    }
    const { opened, closed } = this.client
    assert.deepEqual([opened.all.length, closed.all.length], [1, 0], `${name} reconnected`)
  }
}

const slowCloses = () => server.metric('watchfire_sockets_closes_total', 'reason="slow"')

/** Sends input on a socket of its own; returns how the server closes that socket. */
async function endOf(t, send, at = server) {
  const socket = await RawWebSocket.open(t, at)
  await send(socket)
  return (await socket.closed()).code
}

describe('messages', () => {
  const malformed = {
    'half a message': '["1","1","rooms:1",',
    'a V1 message': '{"topic":"phoenix","event":"heartbeat","payload":{},"ref":"1"}',
    'a hundred thousand brackets': '['.repeat(100_000),
    'a join_ref of a megabyte': `["${'r'.repeat(MIB)}","1","rooms:1","phx_join",{}]`,
  }
  for (const [name, text] of Object.entries(malformed)) {
    itUnnoticedByOthers(`${name} closes the socket with 1011`, async (t) => {
      assert.equal(await endOf(t, (socket) => socket.text(text)), 1011)
    })
  }

  const badBinary = {
    'a reply': binaryPush({ kind: 1, joinRef: '1', ref: '1', topic: 'rooms:1', event: 'ok', data: 'x' }),
    'lengths beyond the message': Buffer.from([0, 200, 200, 200, 200, 1, 2, 3]),
  }
  for (const [name, bytes] of Object.entries(badBinary)) {
    itUnnoticedByOthers(`${name} in bytes closes the socket with 1011`, async (t) => {
      assert.equal(await endOf(t, (socket) => socket.binary(bytes)), 1011)
    })
  }

  itUnnoticedByOthers('a topic of 10 KB is rejected with its limit, and the socket stays open', async (t) => {
    const socket = await RawWebSocket.open(t, server)
    for (const event of ['phx_join', 'ping', 'phx_leave']) {
      const [, , , , payload] = await socket.request(['1', event, `rooms:${'x'.repeat(10_000)}`, event, {}])
      assert.equal(payload.status, 'error')
      assert.equal(payload.response.reason, 'topic too long')
      assert.ok(payload.response.max > 200)
    }
    await socket.join(freshTopic())
  })

  itUnnoticedByOthers('an event of 10 KB is rejected with its limit', async (t) => {
    const socket = await RawWebSocket.open(t, server)
    const topic = freshTopic()
    await socket.join(topic, {}, '1')
    const [, , , , payload] = await socket.request(['1', '2', topic, 'x'.repeat(10_000), {}])
    assert.deepEqual([payload.status, payload.response.reason], ['error', 'event too long'])
    assert.equal((await socket.request(['1', '3', topic, 'ping', {}]))[4].status, 'ok')
  })

  itUnnoticedByOthers('ten thousand joins get one reply each, few of them ok', async (t) => {
    const socket = await RawWebSocket.open(t, server)
    const before = server.residentBytes()
    const reasons = {}
    for (let n = 0; n < 10_000; n += 1_000) {
      for (let m = n; m < n + 1_000; m++) socket.send([`${m}`, `${m}`, `rooms:flood ${m}`, 'phx_join', {}])
      for (let m = n; m < n + 1_000; m++) {
        const [, ref, , , { status, response }] = await socket.receive()
        assert.equal(ref, `${m}`)
        const reason = status === 'ok' ? 'ok' : response.reason
        reasons[reason] = (reasons[reason] ?? 0) + 1
      }
    }
    const { ok, 'too fast': tooFast = 0, 'too many channels joined': tooMany = 0, ...others } = reasons
    assert.deepEqual(others, {})
    assert.ok(ok >= 50 && ok <= 100, `${ok} joins`)
    assert.equal(ok + tooFast + tooMany, 10_000)
    assert.ok(server.residentBytes() - before < 16 * MIB)
    assert.equal((await socket.request(heartbeat('after')))[4].status, 'ok')
  })

  itUnnoticedByOthers('a hundred thousand joins with unread replies close the socket with 1013', async (t) => {
    const socket = await RawWebSocket.open(t, server)
    socket.pause()
    // With several processes, joins wait for each other in a queue with its own limit.
    const closes = async () => (await slowCloses()) + (await server.metric('watchfire_refusals_total', 'join_backlog'))
    const closesBefore = await closes()
    const before = server.residentBytes()
    const joins = Array.from({ length: 1_000 }, (_, n) =>
      frame(opcode.text, JSON.stringify([`${n}`, `${n}`, `rooms:flood ${n}`, 'phx_join', {}])),
    )
    const thousand = Buffer.concat(joins)
    for (let n = 0; n < 100; n++) socket.write(thousand)
    await waitUntil(async () => (await closes()) > closesBefore, 'it is closed')
    socket.resume()
    assert.equal((await socket.closed()).code, 1013)
    assert.ok(server.residentBytes() - before < 16 * MIB)
  })

  itUnnoticedByOthers('2,500 pushes at once get one reply each, many of them too fast', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    for (let n = 0; n < 2_500; n++) socket.send(['1', `${n}`, topic, 'ping', {}])
    let refused = 0
    for (let n = 0; n < 2_500; n++) {
      const [, ref, , , { status, response }] = await socket.receive()
      assert.equal(ref, `${n}`)
      if (status === 'ok') continue
      assert.deepEqual([status, response.reason], ['error', 'too fast'])
      assert.equal(response.limit, 'messages_per_second_per_socket')
      refused++
    }
    assert.ok(refused > 0)
    assert.equal((await socket.request(heartbeat('after')))[4].status, 'ok')
  })

  itUnnoticedByOthers('a payload of a hundred thousand nested arrays is delivered like any other', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    const payload = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    socket.text(`["1","1","${topic}","phx_join",${payload}]`)
    assert.equal((await socket.receive())[4].status, 'ok')
    socket.text(`["1","2","${topic}","ping",${payload}]`)
    assert.ok((await socket.messages.next()).includes(payload))
    socket.text(`["1","3","${freshTopic('presence')}","phx_join",${payload}]`)
    assert.deepEqual((await socket.receive())[4], { status: 'error', response: { reason: 'no user' } })
  })
})

describe('frames', () => {
  const broken = {
    'an unmasked frame': frame(opcode.text, 'hello', { isMasked: false }),
    noise: Buffer.from(Array.from({ length: 4_096 }, (_, n) => (n * 7919 + 13) & 255)),
  }
  for (const [name, bytes] of Object.entries(broken)) {
    itUnnoticedByOthers(`${name} closes the socket with 1002`, async (t) => {
      assert.equal(await endOf(t, (socket) => socket.write(bytes)), 1002)
    })
  }

  const notUtf8 = {
    'a text that is not UTF-8': frame(opcode.text, Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d])),
  }
  for (const [name, bytes] of Object.entries(notUtf8)) {
    itUnnoticedByOthers(`${name} closes the socket with 1007`, async (t) => {
      assert.equal(await endOf(t, (socket) => socket.write(bytes)), 1007)
    })
  }

  itUnnoticedByOthers('a frame of 100 MB is rejected with 1009 as soon as its length is known', async (t) => {
    const before = server.residentBytes()
    for (const kind of [opcode.text, opcode.binary]) {
      const code = await endOf(t, (socket) => socket.write(Buffer.concat([frameHead(kind, 100_000_000), Buffer.alloc(4)])))
      assert.equal(code, 1009)
    }
    assert.ok(server.residentBytes() - before < 4 * MIB)
  })

  itUnnoticedByOthers('fragments beyond the message limit are rejected with 1009', async (t) => {
    const part = Buffer.alloc(MIB, 'x')
    const code = await endOf(t, async (socket) => {
      socket.write(frame(opcode.text, part, { isFinal: false }))
      for (let n = 0; n < 10 && socket.isOpen; n++) socket.write(frame(opcode.continuation, part, { isFinal: false }))
    })
    assert.equal(code, 1009)
  })

  itUnnoticedByOthers('a message just below the limit is accepted', async (t) => {
    const topic = freshTopic()
    const socket = await RawWebSocket.open(t, server)
    await socket.join(topic, {}, '1')
    const text = 'x'.repeat(9_900_000)
    const [, , , , { response }] = await socket.request(['1', '2', topic, 'ping', { text }])
    assert.ok(response.text === text)
  })

  itUnnoticedByOthers('a socket that dies in the middle of a frame is removed', async (t) => {
    const open = async () => server.metric('watchfire_sockets_connections', 'state="websocket"')
    const before = await open()
    const sockets = await Promise.all(Array.from({ length: 20 }, () => RawWebSocket.open(t, server)))
    for (const socket of sockets) socket.write(Buffer.concat([frameHead(opcode.text, 5_000_000), Buffer.alloc(100_000)]))
    for (const socket of sockets) socket.destroy()
    await waitUntil(async () => (await open()) === before, 'they are gone')
  })
})

describe('requests', () => {
  const post = 'POST /socket/longpoll HTTP/1.1\r\nHost: x\r\n'
  /** @type {Record<string, [string | Buffer, RegExp]>} */
  const garbage = {
    noise: [Buffer.from(Array.from({ length: 512 }, (_, n) => (n * 31 + 128) & 255)), /^HTTP\/1\.1 400 /],
    'an invalid request line': ['HELLO\r\n\r\n', /^HTTP\/1\.1 400 /],
    'an unknown version': ['GET / HTTP/9.9\r\nHost: x\r\n\r\n', /^HTTP\/1\.1 (400|505) /],
    'a head of 100 KB': [`GET / HTTP/1.1\r\nHost: x\r\nCookie: ${'c'.repeat(100_000)}\r\n\r\n`, /^HTTP\/1\.1 431 /],
    'a thousand headers': [`GET / HTTP/1.1\r\nHost: x\r\n${'a: b\r\n'.repeat(1_000)}\r\n`, /^HTTP\/1\.1 (400|431) /],
    'a length that is not a number': [`${post}Content-Length: many\r\n\r\n`, /^HTTP\/1\.1 400 /],
    'two lengths': [`${post}Content-Length: 1\r\nContent-Length: 2\r\n\r\nx`, /^HTTP\/1\.1 400 /],
    'an invalid chunk': [`${post}Transfer-Encoding: chunked\r\n\r\nZZ\r\n`, /^(HTTP\/1\.1 (400|200) |$)/],
    'an incomplete percent escape': ['GET /socket/websocket?vsn=%2 HTTP/1.1\r\nHost: x\r\n\r\n', /^HTTP\/1\.1 400 /],
  }
  for (const [name, [bytes, expected]] of Object.entries(garbage)) {
    itUnnoticedByOthers(`${name} instead of a request is rejected`, async (t) => {
      const socket = await openTcp(t, server)
      let answer = ''
      const ended = new Promise((resolve) => socket.on('close', resolve))
      socket.on('data', (chunk) => (answer += chunk.toString('latin1')))
      socket.end(bytes)
      await ended
      assert.match(answer, expected)
    })
  }

  itUnnoticedByOthers('deeply nested or invalid parameters are rejected with 400 or 403', async (t) => {
    for (const query of [`a${'[b]'.repeat(5_000)}=1`, 'a=%ff', 'a[=1', `${'a=1&'.repeat(4_000)}`]) {
      const { status } = await request(t, server, { path: `/socket/websocket?${query}`, headers: upgradeHeaders() })
      assert.ok([101, 400, 403, 414, 431].includes(status), `${status}`)
    }
  })
})

describe('a slow reader in a busy room', () => {
  itUnnoticedByOthers('is closed with 1013, and all others get every message in order', async (t) => {
    const topic = freshTopic()
    const slow = await RawWebSocket.open(t, server)
    await slow.join(topic)
    slow.pause()
    const fast = await connect(t, server, variants[0]).join(topic)
    const messages = collectEvents(fast, 'new_msg')
    const speaker = await connect(t, server, variants[0]).join(topic)
    const spoken = collectEvents(speaker, 'new_msg')
    const before = server.residentBytes()
    const closesBefore = await slowCloses()

    const text = 'x'.repeat(64 * 1024)
    let count = 0
    const isClosed = async () => (await slowCloses()) > closesBefore
    for (; count < 1_000 && (count % 10 > 0 || !(await isClosed())); count++) {
      speaker.push('new_msg', { n: count, text })
      assert.equal((await spoken.next()).n, count)
    }
    assert.ok(await isClosed(), `not closed after ${count} messages`)
    assert.ok(server.residentBytes() - before < 16 * MIB, 'unread messages stayed in memory')
    for (let n = 0; n < count; n++) assert.equal((await messages.next()).n, n)
    slow.resume()
    assert.equal((await slow.closed()).code, 1013)
  })

  itUnnoticedByOthers('that pushes without reading the replies is closed with 1013 too', async (t) => {
    const topic = freshTopic()
    const slow = await RawWebSocket.open(t, server)
    await slow.join(topic, {}, '1')
    slow.pause()
    const closesBefore = await slowCloses()
    const ping = frame(opcode.text, JSON.stringify(['1', '2', topic, 'ping', { text: 'x'.repeat(200_000) }]))
    for (let n = 0; n < 100; n++) slow.write(ping)
    const isClosed = async () => (await slowCloses()) > closesBefore
    await waitUntil(isClosed, 'it is closed')
    slow.resume()
    assert.equal((await slow.closed()).code, 1013)
  })
})

describe('a server with low limits', () => {
  let narrow
  const settings = {
    ...ROOMS,
    'limits.joins_per_second_per_socket': '1000',
    'limits.channels_per_socket_max': '100',
    'limits.partial_bytes_max': `${8 * MIB}`,
    'limits.sockets_per_address_max': '30',
    'limits.loopback_limited': 'true',
  }
  before(async () => (narrow = await startWatchfire({ settings })))
  after(() => narrow.stop())

  it('lets a socket join a hundred channels, and another only after a leave', async (t) => {
    const socket = await RawWebSocket.open(t, narrow)
    for (let n = 0; n < 100; n++) await socket.join(`rooms:${n}`, {}, `${n}`)
    const [joinRef, , , , refusal] = await socket.request(['x', 'x', 'rooms:x', 'phx_join', {}])
    assert.deepEqual([joinRef, refusal], ['x', { status: 'error', response: { reason: 'too many channels joined' } }])
    await socket.join('rooms:99', {}, 'again')
    await socket.request(['0', 'leave', 'rooms:0', 'phx_leave', {}])
    await socket.join('rooms:x', {}, 'y')
  })

  it('bounds the memory for messages that never end', async (t) => {
    const before = narrow.residentBytes()
    const sockets = await Promise.all(Array.from({ length: 12 }, () => RawWebSocket.open(t, narrow)))
    const part = Buffer.alloc(4 * MIB, 'x')
    for (const socket of sockets) socket.write(Buffer.concat([frameHead(opcode.text, 9_000_000), Buffer.alloc(4), part]))
    const closed = () => sockets.filter((socket) => !socket.isOpen)
    // Two shards keep at most two such partial messages each.
    await waitUntil(() => closed().length >= 8, 'the sockets over the limit are closed')
    for (const socket of closed()) assert.equal((await socket.closed()).code, 1013)
    assert.ok(narrow.residentBytes() - before < 40 * MIB)
  })

  const counting = { skip: processesOfAll > 1 && 'each process counts for itself' }
  it('bounds the sockets per address, and accepts more when some have closed', counting, async (t) => {
    const open = async () => narrow.metric('watchfire_sockets_connections', 'state="websocket"')
    await waitUntil(async () => (await open()) === 0, 'the sockets of other tests are gone')
    const sockets = await Promise.all(Array.from({ length: 30 }, () => RawWebSocket.open(t, narrow)))
    const upgrade = { path: '/socket/websocket?vsn=2.0.0', headers: upgradeHeaders() }
    assert.equal((await request(t, narrow, upgrade)).status, 429)
    const polled = await fetch(narrow.http('/socket/longpoll?vsn=2.0.0'))
    assert.deepEqual(await polled.json(), { status: 403 })
    sockets[0].destroy()
    await waitUntil(async () => (await open()) < 30, 'one is gone')
    assert.equal((await request(t, narrow, upgrade)).status, 101)
  })
})
