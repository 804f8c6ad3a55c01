// Browsers that connect directly: the traffic that bypasses the server, and what happens when a connection breaks.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { generated } from './fixtures.mjs'
import { cidOf, WAIT_MS, startServer } from './page-driver.mjs'
import { newDirectVisitor, areConnected, closeConnectionsAfter, connectionsOf, candidatePairOf, usesSnap } from './direct-connections.mjs'
import { engineOfTests } from '../lib/engines/index.mjs'
import { honestHolder, joinPage } from './raw-peer.mjs'
import { blocksOf } from './bitswap-messages.mjs'
import { film } from './films.mjs'

const MIB = 1024 * 1024
const TRANSFER_MS = 90_000
/** Time for a direct connection, even when the first attempt fails and a second one is due. */
const CONNECT_MS = 40_000
/** Shorter than the timeout for a connection whose other end is silent. */
const HANG_UP_MS = 10_000
/** A call that is not answered ends after 15 s. */
const CALL_MS = 20_000
/** Slow enough that a page of some MiB is not loaded before there is a direct connection. */
const NARROW = { 'limits.relay_bytes_per_second_per_peer': MIB }

const relayed = (server) => server.metric('watchfire_pages_relayed_bytes_total')

/** Two browsers, of which one shares a page of that many bytes and the other opens it; the relay is slow. */
async function openFilm(t, bytes, options = {}, snap = false) {
  const server = await startServer(t, { settings: NARROW, ...options })
  const [holder, visitor] = [await newDirectVisitor(t, server, { snap }), await newDirectVisitor(t, server, { snap })]
  await visitor.goTo(await holder.sharePage(await film(bytes)))
  return { server, holder, visitor }
}

/** The share of the page that is present, as the page shows it. */
const percentOf = async (person) => {
  const share = await person.tab.locator('progress').evaluateAll(([bar]) => (bar ? bar.value / bar.max : null))
  return share ?? 1
}

for (const { processes, snap } of [
  { processes: 1, snap: false },
  { processes: 3, snap: engineOfTests.name === 'chromium' },
]) {
  const how = snap ? ', with SNAP' : ''
  test(`content bypasses a server of ${processes} process(es) once there is a direct connection${how}`, async (t) => {
    const { server, holder, visitor } = await openFilm(t, 44 * MIB, { processes }, snap)
    await waitUntil(() => areConnected(holder, visitor), 'a direct connection', CONNECT_MS)
    assert.equal(await usesSnap(visitor), snap)
    const before = await relayed(server)
    // Messages that were already being relayed finish that way.
    await waitUntil(async () => (await percentOf(visitor)) > 0.75, 'most of the page', TRANSFER_MS)
    const rested = await relayed(server)
    await visitor.waitUntilComplete(TRANSFER_MS)
    assert.equal(await relayed(server), rested, 'the server relayed content although there was a direct path')
    assert(rested - before < 3 * MIB, `${rested - before} bytes were relayed after there was a direct path`)

    const pair = await candidatePairOf(visitor)
    t.diagnostic(`${pair.bytesReceived} bytes came directly, ${before} by relay; ${pair.local} to ${pair.remote}`)
    // Some bytes used a candidate pair that was active before.
    assert(pair.bytesReceived > 36 * MIB - rested, `only ${pair.bytesReceived} bytes came directly`)
    for (const person of [holder, visitor]) {
      // If both called at once, one of them closed its own connection and answered on another. Where a busy machine makes the path
      // look long, one side or both add three lanes.
      const states = (await connectionsOf(person)).map(({ state }) => state)
      const open = states.filter((state) => state !== 'closed')
      assert([1, 4, 7].includes(open.length) && open.every((state) => state === 'connected'), `more than one path: ${states}`)
      assert(states.length <= open.length + 1, states.join())
    }
    for (const person of [holder, visitor]) person.assertNoPageErrors()
  })
}

test('browsers learn their public addresses from the server', async (t) => {
  const { server, holder, visitor } = await openFilm(t, 32 * MIB)
  await waitUntil(() => areConnected(holder, visitor), 'a direct connection', CONNECT_MS)
  await waitUntil(() => server.metric('watchfire_stun_answers_total'), 'STUN is answered', WAIT_MS)
  const [connection] = await connectionsOf(visitor)
  assert.deepEqual(connection.stun, [`stun:localhost:${server.port}`])
})

test('when a direct connection breaks, the relay takes over and no block is lost', async (t) => {
  const { server, holder, visitor } = await openFilm(t, 44 * MIB)
  const { directly, here } = await withTimeout(closeConnectionsAfter(visitor, 28 * MIB), 'some bytes arrive directly', TRANSFER_MS)
  assert(here < 0.95, `the page was loaded already: ${here}, ${directly} bytes directly`)
  const before = await relayed(server)
  await visitor.waitUntilComplete(TRANSFER_MS)
  const after = await relayed(server)
  t.diagnostic(`closed at ${(here * 100).toFixed()} %, ${directly} bytes directly; ${after - before} by relay afterwards`)
  assert(after - before > MIB, 'the relay did not take over')
  for (const person of [holder, visitor]) {
    assert.deepEqual(await person.tab.locator('.notice[role=status]').allTextContents(), [], 'a problem is shown')
  }
  for (const person of [holder, visitor]) person.assertNoPageErrors()
})

test('a closed tab closes its connections at once', async (t) => {
  const { holder, visitor } = await openFilm(t, 32 * MIB)
  await waitUntil(() => areConnected(holder, visitor), 'a direct connection', CONNECT_MS)
  // Navigates instead of closing, so that the browser lives on and only `pagehide` closes the connections.
  await visitor.goTo('about:blank')
  await waitUntil(
    async () => (await connectionsOf(holder)).every(({ state }) => state === 'closed'),
    'the connection is closed',
    HANG_UP_MS,
  )
})

test('a small page makes no direct connection', async (t) => {
  const server = await startServer(t)
  const [holder, visitor] = [await newDirectVisitor(t, server), await newDirectVisitor(t, server)]
  const link = await holder.sharePage({ text: 'A few words.' })
  await visitor.goTo(link)
  await visitor.waitUntilComplete()
  assert.deepEqual([await connectionsOf(holder), await connectionsOf(visitor)], [[], []])
  assert.equal(await server.metric('watchfire_pages_signals_total'), 0)
})

test('tabs of one browser, and one whose WebRTC is off, share a page over the paths that they have', async (t) => {
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': 8 * MIB } })
  const holder = await newDirectVisitor(t, server)
  const link = await holder.sharePage(await film(24 * MIB))
  const beside = await holder.openAnotherTab()
  const off = await newDirectVisitor(t, server, { isOff: true })
  await Promise.all([beside.goTo(link), off.goTo(link)])
  await Promise.all([beside.waitUntilComplete(TRANSFER_MS), off.waitUntilComplete(TRANSFER_MS)])
  assert((await relayed(server)) > 23 * MIB, 'the browser without WebRTC did not use the relay')
  for (const person of [holder, beside, off]) person.assertNoPageErrors()
})

test('a peer that sends invalid signals is ignored, and the others get the page', async (t) => {
  const server = await startServer(t, { settings: NARROW })
  const { root, blocks } = blocksOf(generated(6 * MIB))
  const vandals = []
  for (let i = 0; i < 4; i++) vandals.push(await joinPage(t, server, root, 'all', () => ({ blocks: [], has: [], lacks: [] })))
  const visitor = await newDirectVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  const { peer } = await vandals[0].joined.next(({ peer }) => vandals.every(({ id }) => id !== peer))
  const to = Buffer.from(peer, 'hex')
  const sendSignal = (vandal, signal) =>
    vandal.signal(Buffer.concat([to, Buffer.from(typeof signal === 'string' ? signal : JSON.stringify(signal))]))
  const sdp = 'v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n'
  await sendSignal(vandals[0], 'this is not JSON')
  await sendSignal(vandals[1], { kind: 'offer', call: 1, sdp: `${sdp}a=nonsense:\u0000\r\nxyz` })
  for (let call = 0; call < 12; call++) {
    await sendSignal(vandals[2], { kind: 'offer', call, sdp })
    await sendSignal(vandals[2], { kind: 'hang_up', call, reason: 'over' })
  }
  for (let n = 0; n < 200; n++) await sendSignal(vandals[3], { kind: 'hang_up', call: n, reason: 'over' })
  await visitor.waitForText('A peer sent invalid connection requests')
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  await visitor.waitUntilComplete(TRANSFER_MS)
  // The last connection may be an attempt to reach the honest peer, which has no WebRTC and never answers. An attempt to reach a vandal
  // ends after 15 s.
  const statesOf = async () => (await connectionsOf(visitor)).map(({ state }) => state)
  const areClosed = (states) => states.slice(0, -1).every((state) => state === 'closed')
  await waitUntil(async () => areClosed(await statesOf()), 'the connections to the vandals are closed', CALL_MS)
  const states = await statesOf()
  // At most eight calls of a peer are answered, and the visitor calls each of the five peers itself.
  assert(states.length <= 13 && !states.includes('connected'), states.join())
  visitor.assertNoPageErrors()
  assert.equal(cidOf(await visitor.tab.url()), root)
})
