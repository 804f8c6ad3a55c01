// The limits per address hold for all processes of a server together.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { RawWebSocket, request, upgradeHeaders } from '../lib/raw-socket.mjs'
import { startWatchfire } from '../lib/server.mjs'

const PROCESSES = 3
const SOCKETS_MAX = 300
const PAGES_MAX = 12
/** Sockets that may be admitted beyond the limit while reports between processes are in transit, on a busy machine. */
const IN_TRANSIT = 3

/** The requests come from loopback, as from a trusted proxy, and name the client's address. */
const named = (address) => ({ 'X-Forwarded-For': address })

describe('a server of several processes with limits per address', () => {
  let server
  before(async () => {
    const settings = {
      'server.drain_period': '100ms',
      'limits.sockets_per_address_max': SOCKETS_MAX,
      'limits.pages_per_address_max': PAGES_MAX,
    }
    server = await startWatchfire({ processes: PROCESSES, settings })
  })
  after(() => server.stop())

  const upgrade = async (t, address) => {
    const path = '/socket/websocket?vsn=2.0.0'
    const { status, socket } = await request(t, server, { path, headers: { ...upgradeHeaders(), ...named(address) } })
    return { status, socket }
  }

  /** Tries to open so many sockets at once; returns those that are open. */
  async function open(t, address, count) {
    const tried = await Promise.all(Array.from({ length: count }, () => upgrade(t, address)))
    for (const { status } of tried) assert.ok([101, 429].includes(status), String(status))
    return tried.filter(({ status }) => status === 101).map(({ socket }) => socket)
  }

  function close(sockets) {
    for (const socket of sockets) socket.destroy()
  }

  /** Opens one socket after the other until one is refused by each of several connections in a row. */
  async function fill(t, address) {
    const sockets = []
    for (let refused = 0; refused < 5 * PROCESSES; ) {
      const { status, socket } = await upgrade(t, address)
      if (status === 101) sockets.push(socket)
      else refused += 1
    }
    return sockets
  }

  it('admits as many sockets of an address as one process would', async (t) => {
    const sockets = await open(t, '192.0.2.1', 4 * SOCKETS_MAX)
    assert.ok(sockets.length >= SOCKETS_MAX && sockets.length <= SOCKETS_MAX + IN_TRANSIT, `${sockets.length} sockets`)
    assert.equal((await open(t, '192.0.2.1', 20)).length, 0)
    const others = await open(t, '192.0.2.2', 10)
    assert.equal(others.length, 10, 'another address is not affected')
    close([...sockets, ...others])
  })

  it('counts long-poll sessions and sockets together', async (t) => {
    const address = '192.0.2.3'
    const openSession = async () => {
      const { body } = await request(t, server, { path: '/socket/longpoll?vsn=2.0.0', headers: { ...named(address), Connection: 'close' } })
      return JSON.parse(body).status
    }
    let sessions = 0
    while (sessions < SOCKETS_MAX / 2) {
      assert.equal(await openSession(), 410)
      sessions += 1
    }
    const sockets = await fill(t, address)
    const total = sessions + sockets.length
    assert.ok(total >= SOCKETS_MAX && total <= SOCKETS_MAX + IN_TRANSIT, `${total} clients`)
    assert.equal(await openSession(), 403)
    close(sockets)
  })

  it('admits an address again when its sockets are closed, every time', async (t) => {
    for (let round = 0; round < 3; round++) {
      const sockets = []
      await waitUntil(async () => {
        sockets.push(...(await fill(t, '192.0.2.4')))
        return sockets.length >= SOCKETS_MAX
      }, `${SOCKETS_MAX} sockets are open in round ${round}`)
      assert.ok(sockets.length <= SOCKETS_MAX + IN_TRANSIT, `${sockets.length} sockets`)
      close(sockets)
    }
  })

  it('limits the pages of an address', async (t) => {
    const headers = named('192.0.2.5')
    const sockets = await Promise.all(Array.from({ length: 4 * PAGES_MAX }, () => RawWebSocket.open(t, server, { headers })))
    const join = async (socket, n) => {
      const [, , , , { status, response }] = await socket.request(['1', '1', `page:${cidOf(`page ${n}`)}`, 'phx_join', { have: 'none' }])
      assert.ok(status === 'ok' || ['too many pages of this address', 'too fast'].includes(response.reason), JSON.stringify(response))
      return status === 'ok'
    }
    const joined = []
    for (const [n, socket] of sockets.entries()) if (await join(socket, n)) joined.push(socket)
    assert.ok(joined.length >= PAGES_MAX && joined.length <= PAGES_MAX + 2, `${joined.length} pages`)
    const refused = sockets.find((socket) => !joined.includes(socket))
    for (const socket of joined.slice(PAGES_MAX - 1)) socket.destroy()
    await waitUntil(() => join(refused, 'again'), 'a closed page makes room for another')
  })

  it('frees what a killed process counted, and tells the new process what the others count', async (t) => {
    const address = '192.0.2.6'
    const sockets = await fill(t, address)
    assert.ok(sockets.length >= SOCKETS_MAX, `${sockets.length} sockets`)
    const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length
    const [victim] = server.workers().toSorted((a, b) => descriptors(b) - descriptors(a))
    process.kill(victim, 'SIGKILL')
    await waitUntil(() => server.workers().length === PROCESSES && !server.workers().includes(victim), 'the worker is replaced')
    await waitUntil(() => sockets.some((socket) => socket.destroyed || socket.readableEnded), 'some sockets are closed')
    const metric = () => server.metric('watchfire_processes')
    await waitUntil(async () => (await metric()) === PROCESSES, 'all processes answer')
    const alive = () => sockets.filter((socket) => !socket.destroyed && !socket.readableEnded).length
    const again = []
    await waitUntil(async () => {
      again.push(...(await fill(t, address)))
      return alive() + again.length >= SOCKETS_MAX
    }, 'the share of the killed process is free')
    const total = alive() + again.length
    assert.ok(total <= SOCKETS_MAX + IN_TRANSIT, `${total} sockets`)
    assert.ok(again.length > 0)
    close([...sockets, ...again])
  })
})

/** The CID of these bytes as one raw block. */
function cidOf(text) {
  const bytes = Buffer.concat([Buffer.from([0x01, 0x55, 0x12, 0x20]), createHash('sha256').update(text).digest()])
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const digits = bits.match(/.{1,5}/g).map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(five.padEnd(5, '0'), 2)])
  return `b${digits.join('')}`
}
