// The memory by kind of a server that holds thousands of real sockets, compared with the memory that is resident.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { openSocket } from '../lib/room-sockets.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { startWatchfire } from '../lib/server.mjs'

const CLIENTS = 4_000
const AT_A_TIME = 200
const TOPICS_OF_EACH = 6
const MESSAGES_OF_EACH = 6
const PAYLOAD = 'x'.repeat(2_000)
const RULES = `[
  { pattern = "kept:*", join = "anyone", publish = "clients", presence = true, history = { messages = 50 } },
  { pattern = "plain:*", join = "anyone" },
]`
/** Kinds that are not memory of the process, and what the server does not know. */
const OTHERS = ['kernel', 'not_counted']

test('the kinds of memory add up to what thousands of sockets, topics, presences and histories have made resident', async (t) => {
  const server = await startWatchfire({ processes: 1, settings: { 'channels.rules': RULES.replaceAll('\n', ' ') } })
  t.after(() => server.stop())
  const before = await memoryOf(server)
  const sockets = []
  t.after(() => {
    for (const socket of sockets) socket.terminate()
  })
  for (let first = 0; first < CLIENTS; first += AT_A_TIME) {
    const opened = Array.from({ length: AT_A_TIME }, (_, n) => openClient(server, first + n))
    sockets.push(...(await Promise.all(opened)))
  }

  let shown = ''
  let growth = {}
  // The allocator is asked every ten seconds.
  await waitUntil(
    async () => {
      const { kinds, resident } = await memoryOf(server)
      const grown = Object.entries(kinds).map(([kind, bytes]) => /** @type {[string, number]} */ ([kind, bytes - before.kinds[kind]]))
      const counted = grown.filter(([kind]) => !OTHERS.includes(kind)).reduce((sum, [, bytes]) => sum + bytes, 0)
      const share = counted / (resident - before.resident)
      growth = Object.fromEntries(grown)
      shown = `${(100 * share).toFixed(1)} % of ${resident - before.resident} bytes: ${JSON.stringify(growth)}`
      return Math.abs(share - 1) <= 0.05
    },
    () => `the kinds are 95 to 105 % of the growth, not ${shown}`,
    40_000,
  )
  t.diagnostic(shown)
  const floors = { sockets: 80, topics: 100 * TOPICS_OF_EACH, presence: 100, histories: PAYLOAD.length * MESSAGES_OF_EACH }
  for (const [kind, bytes] of Object.entries(floors)) assert(growth[kind] > bytes * CLIENTS, `${kind} are counted: ${shown}`)
})

/** Opens a socket, joins topics of its own, and publishes messages that are kept. */
async function openClient(server, number) {
  const socket = await openSocket(server)
  const kept = `kept:${number}`
  const topics = [kept, ...Array.from({ length: TOPICS_OF_EACH - 1 }, (_, n) => `plain:a topic with a long name:${number}:${n}`)]
  const events = Array.from({ length: MESSAGES_OF_EACH }, () => [kept, 'message', { PAYLOAD }])
  const messages = [...topics.map((topic) => [topic, 'phx_join', {}]), ...events]
  let replies = 0
  const answered = new Promise((resolve) => {
    socket.on('message', (text) => {
      const [, , , event, payload] = JSON.parse(String(text))
      if (event !== 'phx_reply') return
      assert.equal(payload.status, 'ok', String(text))
      replies++
      if (replies === messages.length) resolve(undefined)
    })
  })
  for (const [n, [topic, event, payload]] of messages.entries()) socket.send(JSON.stringify([null, `${n}`, topic, event, payload]))
  await answered
  socket.removeAllListeners('message')
  return socket
}

/** The memory by kind, and the resident memory. */
async function memoryOf(server) {
  const text = await (await fetch(await server.admin('/metrics'))).text()
  const kinds = Object.fromEntries(
    [...text.matchAll(/^watchfire_memory_bytes\{kind="(\w+)"\} (\d+)/gm)].map(([, kind, bytes]) => [kind, Number(bytes)]),
  )
  return { kinds, resident: Number(/^process_resident_memory_bytes (\S+)/m.exec(text)?.[1]) }
}
