// A page whose only holder is a terminal: the browser dials `watchfire share`, or is called by it, and the content bypasses the
// server.

import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'

import { Command } from '../lib/command-line.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { film, openPanel, panelOf } from './films.mjs'
import { addressOf, newVisitor, startServer } from './page-driver.mjs'
import { areConnected, candidatePairOf, connectionsOf, newDirectVisitor, sessionsOf, usesSnap } from './direct-connections.mjs'
import { joinPage } from './raw-peer.mjs'

const MIB = 1 << 20
const TRANSFER_MS = 90_000
const WAIT_MS = 20_000
/** Slow enough that the content is not relayed before there is a direct connection, even on a busy machine. */
const NARROW = { 'limits.relay_bytes_per_second_per_peer': MIB / 2 }

const relayed = (server) => server.metric('watchfire_pages_relayed_bytes_total')

/** Shares a film from a terminal, without an address on libp2p that anything here would dial. */
async function shareFilm(t, server, bytes) {
  const { files } = await film(bytes)
  const folder = path.dirname(files[0])
  const arguments_ = [path.basename(files[0]), '--to', addressOf(server), '--listen', '/ip4/127.0.0.1/tcp/0']
  const share = new Command(t, folder, 'share', arguments_)
  const { page, cid } = await share.event('shared')
  return { share, page, cid }
}

test('a browser dials a terminal over WebTransport, and gets the content of its page directly', async (t) => {
  const server = await startServer(t, { settings: NARROW })
  const { page, share } = await shareFilm(t, server, 8 * MIB)
  const visitor = await newDirectVisitor(t, server, { webTransport: true })
  const started = Date.now()
  await visitor.goTo(page)
  await visitor.waitUntilComplete(TRANSFER_MS)
  const [session, ...others] = await sessionsOf(visitor)
  const bytes = await relayed(server)
  t.diagnostic(`8 MiB in ${Date.now() - started} ms: ${session.received} bytes over WebTransport, ${bytes} by relay`)
  assert.deepEqual([session.isOpen, others], [true, []])
  assert(session.received > 4 * MIB, `only ${session.received} bytes came over WebTransport`)
  assert(bytes < 4 * MIB, `${bytes} bytes were relayed`)
  assert(session.received + bytes < 8.5 * MIB, `${session.received} bytes over WebTransport and ${bytes} by relay: blocks came twice`)
  assert(!(await areConnected(visitor)), 'there is a WebRTC connection as well')
  await openPanel(visitor)
  await panelOf(visitor).getByText('direct', { exact: true }).waitFor()
  visitor.assertNoPageErrors()

  // The terminal goes away, and the tab notices.
  await share.interrupt()
  await waitUntil(async () => !(await sessionsOf(visitor))[0].isOpen, 'the session is still open', WAIT_MS)
})

test('the content of a page in a terminal goes to a browser without WebTransport directly', async (t) => {
  const server = await startServer(t, { settings: NARROW })
  const { page } = await shareFilm(t, server, 8 * MIB)
  const visitor = await newDirectVisitor(t, server)
  const started = Date.now()
  await visitor.goTo(page)
  await visitor.waitUntilComplete(TRANSFER_MS)
  assert(await areConnected(visitor), 'there is no direct connection')
  const [bytes, pair] = [await relayed(server), await candidatePairOf(visitor)]
  t.diagnostic(`8 MiB in ${Date.now() - started} ms: ${pair.bytesReceived} bytes directly, ${bytes} by relay`)
  // On an idle machine, the first block and the requests alone are relayed: some KiB.
  assert(bytes < 4 * MIB, `${bytes} bytes were relayed`)
  assert(pair.bytesReceived > 4 * MIB, `only ${pair.bytesReceived} bytes came directly`)
  visitor.assertNoPageErrors()
})

test('a terminal that holds a page gets it from a browser directly, and gives it to the next browser', async (t) => {
  const server = await startServer(t, { settings: NARROW })
  const publisher = await newDirectVisitor(t, server, { snap: true })
  const link = await publisher.sharePage(await film(8 * MIB))
  const folder = newFolder(t)
  const hold = new Command(t, folder, 'hold', [link, '--store', path.join(folder, 'store'), '--listen', '/ip4/127.0.0.1/tcp/0'])
  await hold.event('held', TRANSFER_MS)
  const before = await relayed(server)
  assert(await areConnected(publisher), 'the terminal is not connected to the browser')
  assert(await usesSnap(publisher), 'the descriptions do not start SCTP')
  // A busy machine relays more while the connection comes up.
  assert(before < 7 * MIB, `${before} bytes were relayed to the terminal`)
  publisher.assertNoPageErrors()
  await publisher.tab.close()

  const visitor = await newDirectVisitor(t, server, { beside: publisher })
  await visitor.goTo(link)
  await visitor.waitUntilComplete(TRANSFER_MS)
  const bytes = (await relayed(server)) - before
  t.diagnostic(`of 8 MiB, ${before} bytes to the terminal and ${bytes} from it by relay`)
  assert(await areConnected(visitor), 'there is no direct connection')
  assert(await usesSnap(visitor), 'the descriptions do not start SCTP')
  assert(bytes < 4 * MIB, `${bytes} bytes were relayed to the browser`)
  visitor.assertNoPageErrors()
})

test('a browser without WebRTC gets the page of a terminal through the relay', async (t) => {
  const server = await startServer(t)
  const { page } = await shareFilm(t, server, 8 * MIB)
  const visitor = await newDirectVisitor(t, server, { isOff: true })
  await visitor.goTo(page)
  await visitor.waitUntilComplete(TRANSFER_MS)
  assert((await relayed(server)) > 8 * MIB, 'the relay was not used')
  visitor.assertNoPageErrors()
})

test('a small page of a terminal makes no direct connection', async (t) => {
  const server = await startServer(t)
  const { page } = await shareFilm(t, server, 20_000)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(page)
  await visitor.waitUntilComplete(TRANSFER_MS)
  assert.equal(await server.metric('watchfire_pages_signals_total'), 0)
})

test('peers that send invalid signals to a terminal are dropped, and the browser gets the page', async (t) => {
  const server = await startServer(t)
  const { share, page, cid } = await shareFilm(t, server, 4 * MIB)
  const vandals = []
  for (let i = 0; i < 4; i++) vandals.push(await joinPage(t, server, cid, 'none', () => ({ blocks: [], has: [], lacks: [] })))
  // The terminal was the only peer then.
  const [to] = vandals[0].introduced
  const sendSignal = (vandal, signal) =>
    vandal.signal(Buffer.concat([to, Buffer.from(typeof signal === 'string' ? signal : JSON.stringify(signal))]))
  const sdp =
    'v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n'
  await sendSignal(vandals[0], 'this is not JSON')
  await sendSignal(vandals[1], { kind: 'offer', call: 1, sdp: `${sdp}a=nonsense:\u0000\r\nxyz` })
  for (let n = 0; n < 160; n++) await sendSignal(vandals[2], { kind: 'hang_up', call: n, reason: 'over' })
  // Offers of calls whose handshake never ends.
  const usable = `${sdp}a=mid:0\r\na=ice-ufrag:abcd\r\na=ice-pwd:abcdefghijklmnopqrstuvwx\r\na=fingerprint:sha-256 ${Array(32).fill('AB').join(':')}\r\na=setup:actpass\r\na=sctp-port:5000\r\n`
  for (let call = 0; call < 12; call++) await sendSignal(vandals[3], { kind: 'offer', call, sdp: usable })
  const visitor = await newDirectVisitor(t, server)
  await visitor.goTo(page)
  await visitor.waitUntilComplete(TRANSFER_MS)
  assert((await connectionsOf(visitor)).some(({ state }) => state === 'connected'))
  for (const reason of ['an invalid signal', 'an invalid offer', 'too many signals', 'too many calls']) {
    await waitUntil(() => share.stderr.includes(`disconnected a peer that sent ${reason}`), `${reason}: ${share.stderr}`, WAIT_MS)
  }
  visitor.assertNoPageErrors()
})
