import { beforeEach, describe, expect, it } from 'vitest'
import { isSameBytes } from '../content/index.ts'
import { pattern } from '../content/pattern.ts'
import type { PeerId } from '../bitswap/index.ts'
import { defaultLimits } from '../limits/index.ts'
import { switchboards } from './direct/index.ts'
import { encodeSignal, type Signal } from './direct/signal.ts'
import { PretendLines } from './direct/pretend-lines.ts'
import { openPage, publish, type PageSession, type Publication } from './index.ts'
import { PretendClock } from './pretend-clock.ts'
import { PretendServer, type PretendConnection } from './pretend-server.ts'
import { encodeSignalFrame } from './segment.ts'

const FILM_BYTES = 24_000_000
/** What a tab gives to the way to one peer before some of it has left, and the words around it. */
const BEGUN_BYTES_MAX = (4 << 20) + 100_000

let clock: PretendClock
let server: PretendServer
let net: PretendLines
beforeEach(() => {
  clock = new PretendClock()
  server = new PretendServer(clock)
  net = new PretendLines(clock)
})

let dice = 0
/** A tab; `isDirect` says whether its browser has WebRTC. */
function open(root: string, publication?: Publication, isDirect = true): { session: PageSession; line: PretendConnection } {
  const line = server.connect()
  const random = () => (dice = (dice + 0.381) % 1)
  const direct = isDirect ? () => Promise.resolve(switchboards(net.make)) : null
  const deps = { connection: line, limits: defaultLimits, clock, random, direct }
  return { session: openPage(root, publication ? { ...deps, publication } : deps), line }
}

const film = (bytes = FILM_BYTES) => publish([{ path: 'film.bin', blob: new Blob([pattern(bytes)]) }])
const isComplete = ({ state }: PageSession) => state.phase === 'complete'
const isDirect = ({ state }: PageSession) => state.peers.some(({ path }) => path === 'direct')
const isRight = async (session: PageSession, bytes: number) => {
  const blob = await session.file('')
  return blob.size === bytes && isSameBytes(new Uint8Array(await blob.arrayBuffer()), pattern(bytes))
}

describe('what much is exchanged with', () => {
  it('is begun by relay and goes on directly, past the server', async () => {
    const published = await film()
    const holder = open(published.root, published).session
    const seeker = open(published.root).session
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    expect(seeker.state.progress.blocksDone).toBeGreaterThan(0)
    expect(seeker.state.peers).toMatchObject([{ path: 'direct', reach: { kind: 'up' } }])
    expect(isComplete(seeker)).toBe(false)
    // What had begun by relay ends there.
    const relayed = server.relayedBytes
    await clock.until(() => isComplete(seeker))
    expect(server.relayedBytes - relayed).toBeLessThan(BEGUN_BYTES_MAX)
    expect(net.carriedBytes).toBeGreaterThan(FILM_BYTES / 2)
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect(seeker.state.receivedBytes).toBe(seeker.state.progress.bytesDone)
  })

  it('is called when content is to go, not only when it has gone', async () => {
    const published = await film()
    const holder = open(published.root, published).session
    const seeker = open(published.root).session
    server.judge = (_from, _to, data) => (data.length > 50_000 ? { status: 'error', response: { reason: 'relay budget', retry_after_ms: 1000 } } : null)
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    expect(server.relayedBytes).toBeLessThan(200_000)
    server.judge = () => null
    await clock.until(() => isComplete(seeker))
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
  })

  it('goes on directly with a peer that was silent for a while', async () => {
    const published = await film(60_000_000)
    const holder = open(published.root, published).session
    const seeker = open(published.root).session
    await clock.until(() => isDirect(holder) && isDirect(seeker) && seeker.state.receivedBytes > 4_000_000)
    const lines = net.lines.length
    server.judge = (_from, _to, data) => (data.length > 1000 ? { status: 'error', response: { reason: 'relay budget', retry_after_ms: 1000 } } : null)
    net.holdUp()
    await clock.until(() => !isDirect(holder))
    net.goOn()
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    server.judge = () => null
    await clock.until(() => isComplete(seeker))
    expect(net.lines).toHaveLength(lines)
    expect(await isRight(seeker, 60_000_000)).toBe(true)
    expect(seeker.state.receivedBytes).toBe(seeker.state.progress.bytesDone)
    expect([...seeker.state.problems, ...holder.state.problems]).toEqual([])
  })

  it('is not called for a short page', async () => {
    const published = await film(60_000)
    open(published.root, published)
    const seeker = open(published.root).session
    await clock.until(() => isComplete(seeker))
    clock.pass(60_000)
    expect([net.lines, server.signals]).toEqual([[], []])
  })

  it('goes by relay where one of the two has no WebRTC', async () => {
    const published = await film()
    const holder = open(published.root, published, false).session
    const seeker = open(published.root).session
    await clock.until(() => isComplete(seeker))
    expect(net.carriedBytes).toBe(0)
    expect(holder.state.peers).toMatchObject([{ reach: { kind: 'none', why: 'absent', again: null } }])
    clock.pass(20_000)
    await clock.until(() => seeker.state.peers[0]?.reach.kind === 'none')
    expect(seeker.state.peers).toMatchObject([{ path: 'relay', reach: { why: 'unanswered', failures: 1 } }])
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect(seeker.state.problems).toEqual([])
  })

  it('is not called when it says that it is a node, and whatever else it says is passed over', async () => {
    const published = await film(2_000_000)
    const holder = open(published.root, published).session
    await clock.until(() => holder.state.presence.kind === 'joined')
    for (const kind of ['node', '<b>', 'direct']) {
      const topic = server.connect().join(`page:${published.root}`, [], { params: () => ({ have: 'all', kind }) })
      await clock.until(() => topic.isJoined())
    }
    await clock.until(() => holder.state.peers.length === 3)
    const none = { kind: 'none', why: 'node', failures: 0, again: null }
    const untried = { kind: 'untried' }
    expect(holder.state.peers.map(({ kind, reach }) => ({ kind, reach }))).toEqual([
      { kind: 'node', reach: none }, { kind: 'tab', reach: untried }, { kind: 'tab', reach: untried },
    ])
  })

  it('goes by relay where no line comes up', async () => {
    net.isBlocked = true
    const published = await film()
    open(published.root, published)
    const seeker = open(published.root).session
    await clock.until(() => isComplete(seeker))
    expect(net.carriedBytes).toBe(0)
    clock.pass(20_000)
    await clock.until(() => seeker.state.peers[0]?.reach.kind === 'none')
    expect(seeker.state.peers).toMatchObject([{ reach: { why: 'unreachable' } }])
  })

  it.each([
    ['is cut', () => net.cut()],
    ['is closed at the other end', () => net.lines[0]?.close()],
    ['is closed at this end', () => net.lines[1]?.close()],
  ])('goes on by relay when the line %s, and not a block is lost or comes twice', async (_what, breaks) => {
    const published = await film()
    const holder = open(published.root, published).session
    const seeker = open(published.root).session
    await clock.until(() => isDirect(holder) && isDirect(seeker) && seeker.state.receivedBytes > 4_000_000)
    const before = server.relayedBytes
    breaks()
    await clock.until(() => isComplete(seeker))
    expect(server.relayedBytes).toBeGreaterThan(before)
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect(seeker.state.receivedBytes).toBe(seeker.state.progress.bytesDone)
    expect([...seeker.state.problems, ...holder.state.problems]).toEqual([])
  })

  it('goes directly again when the line comes back', async () => {
    const published = await film(60_000_000)
    const holder = open(published.root, published).session
    const seeker = open(published.root).session
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    // A relay so slow that the page is not loaded before the line is back.
    server.judge = (_from, _to, data) => (data.length > 1000 ? { status: 'error', response: { reason: 'relay budget', retry_after_ms: 1000 } } : null)
    net.cut()
    await clock.until(() => !isDirect(holder) && !isDirect(seeker))
    net.heal()
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    server.judge = () => null
    await clock.until(() => isComplete(seeker))
    expect(await isRight(seeker, 60_000_000)).toBe(true)
    expect(seeker.state.problems).toEqual([])
  })

  it('goes on with a peer that lost us for a while, and numbers its messages anew', async () => {
    const published = await film()
    const holder = open(published.root, published).session
    const seeker = open(published.root).session
    await clock.until(() => isDirect(holder) && isDirect(seeker) && seeker.state.receivedBytes > 8_000_000)
    const [elder, younger] = server.guests
    elder?.events.message?.('peer_left', { peer: younger?.id })
    expect(holder.state.peers).toEqual([])
    const lostAt = clock.now()
    await clock.until(() => isComplete(seeker))
    // Taken for old ones, its messages are passed over until those who wait for them give up: a minute and a half.
    expect(clock.now() - lostAt).toBeLessThan(40_000)
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect([...seeker.state.problems, ...holder.state.problems]).toEqual([])
  })

  it('has no line any more when the page is closed', async () => {
    const published = await film()
    const holder = open(published.root, published).session
    const seeker = open(published.root).session
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    seeker.close()
    await clock.until(() => net.open.length === 0)
    expect(holder.state.problems).toEqual([])
  })

  it('survives a server that goes away and comes back, under new names', async () => {
    const published = await film()
    const holder = open(published.root, published)
    const seeker = open(published.root)
    await clock.until(() => isDirect(holder.session) && isDirect(seeker.session))
    seeker.line.break()
    expect(seeker.session.state.peers).toEqual([])
    await clock.until(() => isComplete(seeker.session))
    expect(await isRight(seeker.session, FILM_BYTES)).toBe(true)
  })
})

describe('a peer that signals what makes no sense', () => {
  /** Somebody on the page who says these signals to its eldest. */
  async function caller(root: string) {
    const topic = server.connect().join(`page:${root}`, [], { params: () => ({ have: 'none' }) })
    await clock.until(() => topic.isJoined())
    const eldest = server.guests[0]?.id as PeerId
    return (...signals: (Signal | Uint8Array<ArrayBuffer>)[]) => {
      for (const signal of signals) {
        const bytes = signal instanceof Uint8Array ? signal : encodeSignal(signal)
        void topic.push('signal', encodeSignalFrame(eldest, bytes))
      }
    }
  }
  const sdp = 'v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n'
  const floods = Array.from({ length: 1000 }, (_, call): Signal => ({ kind: 'hang_up', call, reason: 'over' }))
  const minds = Array.from({ length: 20 }, (_, call): Signal => ({ kind: 'offer', call, sdp }))

  it.each<[string, (Signal | Uint8Array<ArrayBuffer>)[]]>([
    ['no JSON', [new TextEncoder().encode('hello')]],
    ['a description that is none', [{ kind: 'offer', call: 1, sdp: `${sdp}garbage\r\n` }]],
    ['another mind each time', minds],
    ['too much', floods],
  ])('with %s is sent away and counted, and the others are served', async (_what, signals) => {
    const published = await film(2_000_000)
    const holder = open(published.root, published).session
    await clock.until(() => holder.state.presence.kind === 'joined')
    const say = await caller(published.root)
    say(...signals)
    await clock.until(() => holder.state.peersDropped === 1)
    expect(holder.state.problems[0]).toMatchObject({ fatal: false, sentence: expect.stringContaining('makes no sense') })
    expect(holder.state.peers).toEqual([])
    say({ kind: 'offer', call: 77, sdp })
    const seeker = open(published.root).session
    await clock.until(() => isComplete(seeker))
    expect(holder.state.peersDropped).toBe(1)
    expect(net.open.length).toBeLessThanOrEqual(2)
  })

  it('cannot speak for another: the server says who it is', async () => {
    const published = await film(2_000_000)
    const holder = open(published.root, published).session
    const honest = open(published.root).session
    await clock.until(() => isComplete(honest))
    const say = await caller(published.root)
    say(new TextEncoder().encode(`{"from": "${server.guests[1]?.id}", "kind": "nonsense"}`))
    await clock.until(() => holder.state.peersDropped === 1)
    expect(holder.state.peers.map(({ id }) => id)).toEqual([server.guests[1]?.id])
  })
})
