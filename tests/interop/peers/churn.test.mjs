// A crowd of simulated peers that run the web client's own code, over real sockets and real WebRTC;
// `make bench-churn` runs a larger one.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { bundleWeb } from '../lib/peers/bundle.mjs'
import { playChurn, PUBLISHER } from '../lib/peers/churn.mjs'
import { Peers } from '../lib/peers/peers.mjs'
import { startWatchfire } from '../lib/server.mjs'

const PEERS = 32
/** Processes: one for the publisher, and four with eight peers each. */
const PROCESSES = 5
const WAVES = 4
/** Large enough for super-seeding, so that peers get blocks from each other. */
const PAGE_BYTES = 9_000_000
const CONNECTIONS_MAX = 12
const TIMEOUT_MS = 300_000

test('while peers join, leave, return and are killed, every remaining peer gets the whole page', async (t) => {
  const folder = newFolder(t)
  const bundle = await bundleWeb(folder)
  const server = await startWatchfire({ settings: { 'server.drain_period': '100ms' }, processes: 1 })
  t.after(() => server.kill())
  const peers = await Peers.start(bundle, `http://localhost:${server.port}`, PROCESSES)
  t.after(() => peers.end())

  const result = await playChurn({
    peers,
    server,
    count: PEERS,
    processCount: PROCESSES,
    waves: WAVES,
    bytes: PAGE_BYTES,
    timeoutMs: TIMEOUT_MS,
  })
  const all = [...result.here, ...result.past]
  const sum = (figure) => all.reduce((total, each) => total + each[figure], 0)
  t.diagnostic(
    `${((result.endedAt - result.began) / 1000).toFixed(1)} s, ${sum('directConnectionsMade')} ends of direct connections, ${result.samples.at(-1).copies.toFixed(2)} copies sent by the publisher`,
  )

  assert(
    result.here.length > PEERS * 0.8 && result.past.length > PROCESSES,
    `${result.here.length} stayed, ${result.past.length} left or were killed`,
  )
  for (const [name, hash] of result.hashes) assert.equal(hash, result.hash, `${name} has different content`)
  assert.deepEqual(
    all.flatMap(({ problems }) => problems),
    [],
  )
  assert(sum('receivedBytes') > PAGE_BYTES, `only ${sum('receivedBytes')} bytes were sent directly`)
  assert.equal(sum('relayedWhileDirect'), 0, 'content was relayed between peers with a direct connection')
  for (const { id, connectionsMax } of all) assert(connectionsMax <= CONNECTIONS_MAX, `${id} had ${connectionsMax} connections`)
  const { sentBytes, relayedBytes } = all.find(({ id }) => id === PUBLISHER)
  assert(sentBytes + relayedBytes < (PEERS / 4) * PAGE_BYTES, 'the publisher sent nearly every peer a copy')
  assert(result.serverResidentMax < 256e6, `the server held ${result.serverResidentMax} bytes`)
  await peers.end()
  await server.stop()
})
