// A crowd of simulated peers that run the web client's own code, over real sockets and real WebRTC;
// `make bench-churn` runs a larger one.

import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

import { bundleWeb } from '../lib/peers/bundle.mjs'
import { playChurn, PUBLISHER } from '../lib/peers/churn.mjs'
import { Peers } from '../lib/peers/peers.mjs'
import { startWatchfire } from '../lib/server.mjs'

const PEERS = 32
/** Processes: one for the publisher, and eight peers in each of the others. */
const HERDS = 5
const WAVES = 4
/** Large enough that the publisher leaves copies to be passed on by others. */
const PAGE_BYTES = 9_000_000
const LINES_MAX = 12
const TIMEOUT_MS = 300_000

test('while peers come, leave, return and are killed, every remaining peer gets the whole page', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
  t.after(() => rm(folder, { recursive: true }))
  const bundle = await bundleWeb(folder)
  const server = await startWatchfire({ settings: { 'server.drain_period': '100ms' }, processes: 1 })
  t.after(() => server.kill())
  const peers = await Peers.start(bundle, `http://localhost:${server.port}`, HERDS)
  t.after(() => peers.end())

  const reply = await playChurn({ peers, server, count: PEERS, processCount: HERDS, waves: WAVES, bytes: PAGE_BYTES, timeoutMs: TIMEOUT_MS })
  const everybody = [...reply.here, ...reply.past]
  const sum = (figure) => everybody.reduce((total, each) => total + each[figure], 0)
  t.diagnostic(`${((reply.endedAt - reply.began) / 1000).toFixed(1)} s, ${sum('waysMade')} ends of direct ways, ${reply.samples.at(-1).copies.toFixed(2)} copies of the publisher's`)

  assert(reply.here.length > PEERS * 0.8 && reply.past.length > HERDS, `${reply.here.length} stayed, ${reply.past.length} left or were cut off`)
  for (const [name, hash] of reply.hashes) assert.equal(hash, reply.hash, `${name} has something else`)
  assert.deepEqual(everybody.flatMap(({ problems }) => problems), [])
  assert(sum('receivedBytes') > PAGE_BYTES, `only ${sum('receivedBytes')} bytes went directly`)
  assert.equal(sum('relayedWhileDirect'), 0, 'content went by relay between two who had a direct way')
  for (const { id, linesMost } of everybody) assert(linesMost <= LINES_MAX, `${id} had ${linesMost} connections`)
  const { sentBytes, relayedBytes } = everybody.find(({ id }) => id === PUBLISHER)
  assert(sentBytes + relayedBytes < (PEERS / 4) * PAGE_BYTES, 'the publisher gave nearly everyone a copy')
  assert(reply.residentServerMost < 256e6, `the server held ${reply.residentServerMost} bytes`)
  await peers.end()
  await server.stop()
})
