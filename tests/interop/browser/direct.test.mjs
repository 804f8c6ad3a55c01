// Browsers that reach each other directly: what goes past the server then, and what happens when the way breaks.

import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'

import { until, within } from '../lib/waiting.mjs'
import { generated } from './things.mjs'
import { cidOf, PATIENCE_MS, serve } from './people.mjs'
import { arriveDirect, areLinked, cutLinesAfter, linesOf, pairOf } from './lines.mjs'
import { honest, joinPage } from './raw_peer.mjs'
import { blocksOf } from './bitswap.mjs'

const MIB = 1024 * 1024
const TRANSFER_MS = 90_000
/** By then there is a direct path, even when the first call came to nothing and the next was due. */
const LINK_MS = 40_000
/** Sooner than a line is given up whose other end is silent. */
const HANG_UP_MS = 10_000
/** Slow enough that a page of some MiB is not loaded before there is a direct path. */
const NARROW = { 'limits.relay_bytes_per_second_peer': MIB }

const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
after(() => rm(folder, { recursive: true }))

/** A file on disk: a large one takes a browser's remote control too long. */
async function film(bytes) {
  const to = path.join(folder, `film-${bytes}.bin`)
  await writeFile(to, generated(bytes))
  return { files: [to] }
}

const relayed = (server) => server.metric('watchfire_pages_relayed_bytes_total')

/** How much of the page is here, as it is told. */
const percentOf = async (person) => {
  const told = await person.tab.locator('progress').evaluateAll(([bar]) => (bar ? bar.value / bar.max : null))
  return told ?? 1
}

for (const processes of [1, 3]) {
  test(`content goes past a server of ${processes} process(es) once there is a direct path`, async (t) => {
    const server = await serve(t, { settings: NARROW, processes })
    const [holder, visitor] = [await arriveDirect(t, server), await arriveDirect(t, server)]
    const link = await holder.light(await film(44 * MIB))
    await visitor.goTo(link)
    await until(() => areLinked(holder, visitor), 'a direct path', LINK_MS)
    const before = await relayed(server)
    // What had begun by relay ends there: a message that was on its way.
    await until(async () => (await percentOf(visitor)) > 0.75, 'most of it', TRANSFER_MS)
    const rested = await relayed(server)
    await visitor.holdsIt(TRANSFER_MS)
    assert.equal(await relayed(server), rested, 'the server relayed content although there was a direct path')
    assert(rested - before < 3 * MIB, `${rested - before} bytes were relayed after there was a direct path`)

    const pair = await pairOf(visitor)
    t.diagnostic(`${pair.bytesReceived} bytes came directly, ${before} by relay; ${pair.local} to ${pair.remote}`)
    // Some came by a pair of addresses that was in use before this one.
    assert(pair.bytesReceived > 36 * MIB - rested, `only ${pair.bytesReceived} bytes came directly`)
    assert((await linesOf(holder)).length === 1 && (await linesOf(visitor)).length === 1, 'one line each')
    for (const person of [holder, visitor]) person.hasNoComplaints()
  })
}

test('browsers learn from the server how they are seen from outside', async (t) => {
  const server = await serve(t, { settings: NARROW })
  const [holder, visitor] = [await arriveDirect(t, server), await arriveDirect(t, server)]
  const link = await holder.light(await film(32 * MIB))
  await visitor.goTo(link)
  await until(() => areLinked(holder, visitor), 'a direct path', LINK_MS)
  await until(() => server.metric('watchfire_stun_answers_total'), 'STUN is answered', PATIENCE_MS)
  const [line] = await linesOf(visitor)
  assert.deepEqual(line.stun, [`stun:localhost:${server.port}`])
})

test('when the direct path is cut the relay goes on, and not a block is lost', async (t) => {
  const server = await serve(t, { settings: NARROW })
  const [holder, visitor] = [await arriveDirect(t, server), await arriveDirect(t, server)]
  const link = await holder.light(await film(44 * MIB))
  await visitor.goTo(link)
  const { directly, here } = await within(cutLinesAfter(visitor, 4 * MIB), 'some of it came directly', TRANSFER_MS)
  assert(here < 0.95, `it was there already: ${here}, ${directly} bytes directly`)
  const before = await relayed(server)
  await visitor.holdsIt(TRANSFER_MS)
  const after = await relayed(server)
  t.diagnostic(`cut at ${(here * 100).toFixed()} %, ${directly} bytes directly; ${after - before} by relay afterwards`)
  assert(after - before > MIB, 'the relay did not go on')
  for (const person of [holder, visitor]) {
    assert.deepEqual(await person.tab.locator('.notice[role=status]').allTextContents(), [], 'nobody is told of a problem')
  }
  for (const person of [holder, visitor]) person.hasNoComplaints()
})

test('a tab that is closed hangs up at once', async (t) => {
  const server = await serve(t, { settings: NARROW })
  const [holder, visitor] = [await arriveDirect(t, server), await arriveDirect(t, server)]
  const link = await holder.light(await film(32 * MIB))
  await visitor.goTo(link)
  await until(() => areLinked(holder, visitor), 'a direct path', LINK_MS)
  // To another address, so that the tab's browser lives on: only `pagehide` tells.
  await visitor.goTo('about:blank')
  await until(async () => (await linesOf(holder)).every(({ state }) => state === 'closed'), 'the line is closed', HANG_UP_MS)
})

test('a small page makes no connection', async (t) => {
  const server = await serve(t)
  const [holder, visitor] = [await arriveDirect(t, server), await arriveDirect(t, server)]
  const link = await holder.light({ text: 'A few words.' })
  await visitor.goTo(link)
  await visitor.holdsIt()
  assert.deepEqual([await linesOf(holder), await linesOf(visitor)], [[], []])
  assert.equal(await server.metric('watchfire_pages_signals_total'), 0)
})

test('tabs of one browser, and one whose WebRTC is off, share a page by whatever they have', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': 8 * MIB } })
  const holder = await arriveDirect(t, server)
  const link = await holder.light(await film(24 * MIB))
  const beside = await holder.withAnotherTab()
  const off = await arriveDirect(t, server, { isOff: true })
  await Promise.all([beside.goTo(link), off.goTo(link)])
  await Promise.all([beside.holdsIt(TRANSFER_MS), off.holdsIt(TRANSFER_MS)])
  assert((await relayed(server)) > 23 * MIB, 'the one without WebRTC got it by relay')
  for (const person of [holder, beside, off]) person.hasNoComplaints()
})

test('whoever signals nonsense is sent away, and the others get the page', async (t) => {
  const server = await serve(t, { settings: NARROW })
  const { root, blocks } = blocksOf(generated(12 * MIB))
  const vandals = []
  for (let i = 0; i < 4; i++) vandals.push(await joinPage(t, server, root, 'all', () => ({ blocks: [], has: [], lacks: [] })))
  const visitor = await arriveDirect(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  const { peer } = await vandals[0].joined.next(({ peer }) => vandals.every(({ id }) => id !== peer))
  const to = Buffer.from(peer, 'hex')
  const say = (vandal, signal) => vandal.signal(Buffer.concat([to, Buffer.from(typeof signal === 'string' ? signal : JSON.stringify(signal))]))
  const sdp = 'v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n'
  await say(vandals[0], 'this is no JSON')
  await say(vandals[1], { kind: 'offer', call: 1, sdp: `${sdp}a=nonsense:\u0000\r\nxyz` })
  for (let call = 0; call < 12; call++) {
    await say(vandals[2], { kind: 'offer', call, sdp })
    await say(vandals[2], { kind: 'hang_up', call, reason: 'over' })
  }
  for (let n = 0; n < 200; n++) await say(vandals[3], { kind: 'hang_up', call: n, reason: 'over' })
  await visitor.sees('A peer tried to reach this tab in a way that makes no sense')
  await joinPage(t, server, root, 'all', honest(blocks))
  await visitor.holdsIt(TRANSFER_MS)
  // The last may be a call to the honest one, who has no WebRTC and never answers.
  const states = (await linesOf(visitor)).map(({ state }) => state)
  assert(states.slice(0, -1).every((state) => state === 'closed'), states.join())
  assert(states.length <= 10 && !states.includes('connected'), states.join())
  visitor.hasNoComplaints()
  assert.equal(cidOf(visitor.tab.url()), root)
})
