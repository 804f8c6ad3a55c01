import { beforeEach, describe, expect, it, vi } from 'vitest'
import { isSameBytes, MemoryBlockStore } from '../content/index.ts'
import { pattern } from '../../test/pattern.ts'
import { encodeMessage, type PeerId } from '../bitswap/index.ts'
import { defaultLimits } from '../limits/index.ts'
import type { DirectConnectionsDeps } from './direct-paths.ts'
import { directConnections } from './direct/index.ts'
import { encodeSignal, type Signal } from './direct/signal.ts'
import { FakeRtcNetwork } from '../../test/fake-rtc-network.ts'
import { openPage, publish, type PageSession, type Publication } from './index.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { FakeServer, type FakeConnection } from '../../test/fake-server.ts'
import { encodeSignalFrame } from './segment.ts'

const FILM_BYTES = 24_000_000

let clock: FakeClock
let server: FakeServer
let net: FakeRtcNetwork
beforeEach(() => {
  clock = new FakeClock()
  server = new FakeServer(clock)
  net = new FakeRtcNetwork(clock)
})

let rng = 0
/** A tab; `isDirect` says whether its browser has WebRTC. */
function open(root: string, publication?: Publication, isDirect = true): { session: PageSession; line: FakeConnection } {
  const line = server.connect()
  const random = () => (rng = (rng + 0.381) % 1)
  const direct = isDirect ? () => Promise.resolve(directConnections(net.make)) : null
  const deps = { connection: line, limits: defaultLimits, clock, random, direct }
  return { session: openPage(root, publication ? { ...deps, publication } : deps), line }
}

const film = (bytes = FILM_BYTES) => publish([{ path: 'film.bin', blob: new Blob([pattern(bytes)]) }])
/** A tab with a film, and one that loads it. */
async function pair(bytes = FILM_BYTES) {
  const published = await film(bytes)
  return { holder: open(published.root, published).session, seeker: open(published.root).session }
}
/** A store that has no room for a while, such as on a slow disk. */
class BusyStore extends MemoryBlockStore {
  resume = (): void => {}
  #paused: Promise<void> | null = null

  pause(): void {
    this.#paused = new Promise((resolve) => {
      this.resume = () => {
        this.#paused = null
        resolve()
      }
    })
  }

  override room(): null {
    return this.#paused as never
  }
}

const pass = async (milliseconds: number) => {
  let isOver = false
  clock.after(milliseconds, () => (isOver = true))
  await clock.until(() => isOver)
}
/** The relay takes no message of more bytes. */
function holdUpRelay(bytesMax: number) {
  const response = { reason: 'relay budget', retry_after_ms: 1000 }
  server.refuseRelay = (_from, _to, data) => (data.length > bytesMax ? { status: 'error', response } : null)
}
const isComplete = ({ state }: PageSession) => state.phase === 'complete'
const isDirect = ({ state }: PageSession) => state.peers.some(({ path }) => path === 'direct')
const isRight = async (session: PageSession, bytes: number) => {
  const blob = await session.file('')
  return blob.size === bytes && isSameBytes(new Uint8Array(await blob.arrayBuffer()), pattern(bytes))
}

describe('a peer with much traffic', () => {
  it('is asked over the relay, and sends the blocks of a large page on a direct connection', async () => {
    const { holder, seeker } = await pair()
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    expect(seeker.state.progress.blocksDone).toBeGreaterThan(0)
    expect(seeker.state.peers).toMatchObject([{ path: 'direct', direct: { kind: 'up' } }])
    expect(isComplete(seeker)).toBe(false)
    await clock.until(() => isComplete(seeker))
    expect(server.relayedBytes).toBeLessThan(20_000)
    expect(net.carriedBytes).toBeGreaterThan(FILM_BYTES)
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect(seeker.state.receivedBytes).toBe(seeker.state.progress.bytesDone)
  })

  it('is asked over the relay by each of six viewers, who get a large page directly', async () => {
    const published = await film(12_000_000)
    open(published.root, published)
    const viewers: PageSession[] = []
    while (viewers.length < 6) {
      viewers.push(open(published.root).session)
      await pass(300)
    }
    await clock.until(() => viewers.every(isComplete))
    expect(server.relayedBytes).toBeLessThan(12_000_000 / 100)
  })

  it('is connected directly when content is queued, not only after it was sent', async () => {
    const { holder, seeker } = await pair()
    holdUpRelay(50_000)
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    expect(server.relayedBytes).toBeLessThan(200_000)
    server.refuseRelay = () => null
    await clock.until(() => isComplete(seeker))
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
  })

  it('stays connected directly after a time without traffic', async () => {
    const { holder, seeker } = await pair(60_000_000)
    await clock.until(() => isDirect(holder) && isDirect(seeker) && seeker.state.receivedBytes > 4_000_000)
    const signals = server.signals.length
    holdUpRelay(1000)
    net.holdUp()
    await clock.until(() => !isDirect(holder))
    net.resume()
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    server.refuseRelay = () => null
    await clock.until(() => isComplete(seeker))
    // Only further lanes may have been opened.
    expect(server.signals).toHaveLength(signals)
    expect(await isRight(seeker, 60_000_000)).toBe(true)
    expect(seeker.state.receivedBytes).toBe(seeker.state.progress.bytesDone)
    expect([...seeker.state.problems, ...holder.state.problems]).toEqual([])
  })

  it('is not connected directly for a small page', async () => {
    const published = await film(60_000)
    open(published.root, published)
    const seeker = open(published.root).session
    await clock.until(() => isComplete(seeker))
    clock.pass(60_000)
    expect([net.connections, server.signals]).toEqual([[], []])
  })

  it('uses the relay if one of the two has no WebRTC', async () => {
    const published = await film()
    const holder = open(published.root, published, false).session
    const seeker = open(published.root).session
    await clock.until(() => isComplete(seeker))
    expect(net.carriedBytes).toBe(0)
    expect(holder.state.peers).toMatchObject([{ direct: { kind: 'none', why: 'absent', again: null } }])
    clock.pass(20_000)
    await clock.until(() => seeker.state.peers[0]?.direct.kind === 'none')
    expect(seeker.state.peers).toMatchObject([{ path: 'relay', direct: { why: 'unanswered', failures: 1 } }])
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect(seeker.state.problems).toEqual([])
  })

  it('is not connected directly if it is a node, and unknown kinds count as tabs', async () => {
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
    expect(holder.state.peers.map(({ kind, direct }) => ({ kind, direct }))).toEqual([
      { kind: 'node', direct: none },
      { kind: 'tab', direct: untried },
      { kind: 'tab', direct: untried },
    ])
  })

  it('uses the relay if no connection comes up', async () => {
    net.isBlocked = true
    const published = await film()
    open(published.root, published)
    const seeker = open(published.root).session
    await clock.until(() => isComplete(seeker))
    expect(net.carriedBytes).toBe(0)
    clock.pass(20_000)
    await clock.until(() => seeker.state.peers[0]?.direct.kind === 'none')
    expect(seeker.state.peers).toMatchObject([{ direct: { why: 'unreachable' } }])
  })

  it.each([
    ['is cut', () => net.cut()],
    ['is closed at the other end', () => net.open[0]?.close()],
    ['is closed at this end', () => net.open[1]?.close()],
  ])('continues over the relay when the connection %s, and no block is lost or arrives twice', async (_what, breaks) => {
    const { holder, seeker } = await pair()
    await clock.until(() => isDirect(holder) && isDirect(seeker) && seeker.state.receivedBytes > 4_000_000)
    const before = server.relayedBytes
    breaks()
    await clock.until(() => isComplete(seeker))
    expect(server.relayedBytes).toBeGreaterThan(before)
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect(seeker.state.receivedBytes).toBe(seeker.state.progress.bytesDone)
    expect([...seeker.state.problems, ...holder.state.problems]).toEqual([])
  })

  it('uses the direct connection again when it comes back', async () => {
    const { holder, seeker } = await pair(60_000_000)
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    // A relay so slow that the page is not loaded before the connection is back.
    holdUpRelay(1000)
    net.cut()
    await clock.until(() => !isDirect(holder) && !isDirect(seeker))
    net.heal()
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    server.refuseRelay = () => null
    await clock.until(() => isComplete(seeker))
    expect(await isRight(seeker, 60_000_000)).toBe(true)
    expect(seeker.state.problems).toEqual([])
  })

  it('continues after the peer lost this tab for a while and restarted its message numbers', async () => {
    const { holder, seeker } = await pair()
    await clock.until(() => isDirect(holder) && isDirect(seeker) && seeker.state.receivedBytes > 8_000_000)
    const [elder, younger] = server.members
    elder?.events.message?.('peer_left', { peer: younger?.id })
    expect(holder.state.peers).toEqual([])
    const lostAt = clock.now()
    await clock.until(() => isComplete(seeker))
    // Its messages count as read already, so they are dropped until its requests time out after a minute and a half.
    expect(clock.now() - lostAt).toBeLessThan(40_000)
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect([...seeker.state.problems, ...holder.state.problems]).toEqual([])
  })

  it('sends no block twice although a reader turns to other parts while blocks wait to be read', async () => {
    const published = await film()
    const holder = open(published.root, published).session
    const store = new BusyStore(1 << 30)
    const random = () => (rng = (rng + 0.381) % 1)
    const direct = () => Promise.resolve(directConnections(net.make))
    const deps = { connection: server.connect(), limits: defaultLimits, clock, random, direct, blocks: () => store }
    const seeker = openPage(published.root, deps)
    await clock.until(() => isDirect(holder) && isDirect(seeker) && seeker.state.receivedBytes > 2_000_000)
    const opened = await seeker.open('')
    for (let part = 1; part < 8 && !isComplete(seeker); part++) {
      // The blocks have left the holder, and the seeker is late with reading them.
      store.pause()
      await pass(400)
      const reader = opened.read((part * FILM_BYTES) / 8, FILM_BYTES).getReader()
      await pass(200)
      store.resume()
      let isRead = false
      void reader.read().then(() => (isRead = true))
      await clock.until(() => isRead)
      void reader.cancel()
    }
    await clock.until(() => isComplete(seeker))
    expect(await isRight(seeker, FILM_BYTES)).toBe(true)
    expect(net.carriedBytes + server.relayedBytes).toBeLessThan(FILM_BYTES * 1.01)
  })

  it('is no holder any more when its network is gone, although the server still counts it', async () => {
    const { seeker } = await pair()
    await clock.until(() => isDirect(seeker) && seeker.state.receivedBytes > 4_000_000)
    const [holder] = server.members
    if (holder === undefined) throw new Error('nobody shares the page')
    const handle = server.handle.bind(server)
    server.handle = (member, event, payload) => (member === holder ? { status: 'timeout' } : handle(member, event, payload))
    net.cut()
    await clock.until(() => seeker.state.counts.holders === 0)
    expect(seeker.state).toMatchObject({ phase: 'unavailable', counts: { watching: 1 }, peers: [] })
    const phases = new Set<string>()
    seeker.subscribe(({ phase }) => phases.add(phase))
    clock.pass(5_000)
    expect(seeker.state.sinceAvailable).toBeGreaterThanOrEqual(5_000)
    // Now the server notices it too. The page is not available in between.
    server.removeMember(holder)
    clock.pass(5_000)
    expect([...phases]).toEqual(['unavailable'])
    expect(seeker.state.counts).toMatchObject({ watching: 1, holders: 0 })
    net.heal()
    open(seeker.root, await film())
    await clock.until(() => isComplete(seeker))
  })

  it('has no direct connection after the page is closed', async () => {
    const { holder, seeker } = await pair()
    await clock.until(() => isDirect(holder) && isDirect(seeker))
    seeker.close()
    await clock.until(() => net.open.length === 0)
    expect(holder.state.problems).toEqual([])
  })

  it('survives a restart of the server, which gives all peers new ids', async () => {
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

describe('a holder that is no help', () => {
  const BYTES = 6_000_000
  const after = (milliseconds: number) => new Promise<void>((resolve) => clock.after(milliseconds, resolve))

  it.each<[string, () => Promise<void>]>([
    ['claims all blocks and sends none', () => new Promise(() => {})],
    ['sends each block after ten seconds', () => after(10_000)],
  ])('because it %s does not delay a page that another holder has', async (_what, pause) => {
    const unhelpful = await film(BYTES)
    const read = unhelpful.store.read.bind(unhelpful.store)
    unhelpful.store.read = async (cid) => {
      await pause()
      return read(cid)
    }
    open(unhelpful.root, unhelpful)
    const seeker = open(unhelpful.root).session
    await clock.until(() => seeker.state.peers.length === 1)
    clock.pass(5_000)
    const arrivedAt = clock.now()
    open(unhelpful.root, await film(BYTES))
    await clock.until(() => isComplete(seeker))
    expect(clock.now() - arrivedAt).toBeLessThan(2_000)
    expect(seeker.state.receivedBytes).toBe(seeker.state.progress.bytesDone)
    expect(net.open.length).toBeLessThanOrEqual(4)
    expect(await isRight(seeker, BYTES)).toBe(true)
  })
})

describe('a peer that sends invalid signals', () => {
  /** A peer that sends these signals to the first peer on the page. */
  async function caller(root: string) {
    const topic = server.connect().join(`page:${root}`, [], { params: () => ({ have: 'none' }) })
    await clock.until(() => topic.isJoined())
    const eldest = server.members[0]?.id as PeerId
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
    ['bytes that are not JSON', [new TextEncoder().encode('hello')]],
    ['an invalid description', [{ kind: 'offer', call: 1, sdp: `${sdp}garbage\r\n` }]],
    ['a new offer each time', minds],
    ['too many signals', floods],
  ])('with %s is dropped and counted, and other peers are served', async (_what, signals) => {
    const published = await film(2_000_000)
    const holder = open(published.root, published).session
    await clock.until(() => holder.state.presence.kind === 'joined')
    const sendSignals = await caller(published.root)
    sendSignals(...signals)
    await clock.until(() => holder.state.peersDropped === 1)
    expect(holder.state.problems[0]).toMatchObject({ fatal: false, sentence: expect.stringContaining('invalid connection requests') })
    expect(holder.state.peers).toEqual([])
    sendSignals({ kind: 'offer', call: 77, sdp })
    const seeker = open(published.root).session
    await clock.until(() => isComplete(seeker))
    expect(holder.state.peersDropped).toBe(1)
    expect(net.open.length).toBeLessThanOrEqual(2)
  })

  it('cannot impersonate another peer, because the server adds the sender’s id', async () => {
    const published = await film(2_000_000)
    const holder = open(published.root, published).session
    const honest = open(published.root).session
    await clock.until(() => isComplete(honest))
    const sendSignals = await caller(published.root)
    sendSignals(new TextEncoder().encode(`{"from": "${server.members[1]?.id}", "kind": "nonsense"}`))
    await clock.until(() => holder.state.peersDropped === 1)
    expect(holder.state.peers.map(({ id }) => id)).toEqual([server.members[1]?.id])
  })
})

describe('peers that fall silent', () => {
  it('are a reason to ask for the server also if the last one sent only a copy of what was read', async () => {
    const published = await film(1000)
    const line = server.connect()
    const verify = vi.spyOn(line, 'verify')
    let emit: DirectConnectionsDeps['emit'] = () => {}
    const none = {
      size: 0,
      connect() {},
      handleSignal() {},
      forget() {},
      closeAll() {},
      close() {},
      status: () => ({ kind: 'untried' }) as const,
    }
    const make = (deps: DirectConnectionsDeps) => {
      emit = deps.emit
      return none
    }
    const session = openPage(published.root, { connection: line, limits: defaultLimits, clock, direct: () => Promise.resolve(make) })
    await clock.until(() => session.state.presence.kind === 'joined')
    const topic = server.connect().join(`page:${published.root}`, [], { params: () => ({ have: 'none' }) })
    await clock.until(() => topic.isJoined())
    const [self, peer] = server.members.map(({ id }) => id as PeerId) as [PeerId, PeerId]
    void topic.push('signal', encodeSignalFrame(self, new Uint8Array(1)))
    await clock.until(() => verify.mock.calls.length === 1)
    const bytes = encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }, [])
    for (const calls of [2, 3]) {
      // By now, the tab searches for peers at the most every ten seconds.
      await pass(61_000)
      emit({ kind: 'segment', peer, segment: { message: 1, offset: 0, total: bytes.length, bytes } })
      await pass(2000)
      expect(verify).toHaveBeenCalledTimes(calls)
    }
  })
})
