// A crowd of simulated peers that run the web client's own code, over real sockets and real WebRTC; `make bench-churn` has
// one that is larger.

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
/** Processes: one for who publishes, and eight peers in each of the others. */
const HERDS = 5
const WAVES = 4
/** Large enough that who publishes leaves it to others to pass on what it gave. */
const PAGE_BYTES = 9_000_000
const LINES_MAX = 12
const TIMEOUT_MS = 300_000

test('while people come, leave, return and are cut off, everyone who stays gets all of the page', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
  t.after(() => rm(folder, { recursive: true }))
  const bundle = await bundleWeb(folder)
  const server = await startWatchfire({ settings: { 'server.drain_period': '100ms' }, processes: 1 })
  t.after(() => server.kill())
  const peers = await Peers.gather(bundle, `http://localhost:${server.port}`, HERDS)
  t.after(() => peers.end())

  const told = await playChurn({ peers, server, count: PEERS, herds: HERDS, waves: WAVES, bytes: PAGE_BYTES, timeoutMs: TIMEOUT_MS })
  const everybody = [...told.here, ...told.past]
  const sum = (figure) => everybody.reduce((total, each) => total + each[figure], 0)
  t.diagnostic(`${((told.endedAt - told.began) / 1000).toFixed(1)} s, ${sum('waysMade')} ends of direct ways, ${told.samples.at(-1).copies.toFixed(2)} copies of the publisher's`)

  assert(told.here.length > PEERS * 0.8 && told.past.length > HERDS, `${told.here.length} stayed, ${told.past.length} left or were cut off`)
  for (const [name, hash] of told.hashes) assert.equal(hash, told.hash, `${name} has something else`)
  assert.deepEqual(everybody.flatMap(({ problems }) => problems), [])
  assert(sum('receivedBytes') > PAGE_BYTES, `only ${sum('receivedBytes')} bytes went directly`)
  assert.equal(sum('relayedWhileDirect'), 0, 'content went by relay between two who had a direct way')
  for (const { id, linesMost } of everybody) assert(linesMost <= LINES_MAX, `${id} had ${linesMost} connections`)
  const { sentBytes, relayedBytes } = everybody.find(({ id }) => id === PUBLISHER)
  assert(sentBytes + relayedBytes < (PEERS / 4) * PAGE_BYTES, 'the publisher gave nearly everyone a copy')
  assert(told.residentServerMost < 256e6, `the server held ${told.residentServerMost} bytes`)
  await peers.end()
  await server.stop()
})
