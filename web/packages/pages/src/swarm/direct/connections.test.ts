import { beforeEach, describe, expect, it } from 'vitest'
import type { PeerId } from '../../bitswap/index.ts'
import { FakeClock } from '../../../test/fake-clock.ts'
import { encodeSignal, type Signal } from './signal.ts'
import { FakeRtcNetwork } from '../../../test/fake-rtc-network.ts'
import type { DirectConnections } from '../direct-paths.ts'
import { directConnections } from './connections.ts'

const name = (n: number) => n.toString(16).padStart(16, '0') as PeerId

let clock: FakeClock
let net: FakeRtcNetwork
let sent: { from: PeerId; to: PeerId; signal: Signal }[]
let boards: Map<PeerId, Board>
/** Signals that were sent and not delivered yet. `null` while signals are delivered at once. */
let detained: (() => void)[] | null
/** Signals that the server cannot deliver. It replies so after a while. */
let isLost: (from: PeerId, signal: Signal) => boolean
beforeEach(() => {
  detained = null
  isLost = () => false
  clock = new FakeClock()
  net = new FakeRtcNetwork(clock)
  sent = []
  boards = new Map()
})

interface Board {
  readonly name: PeerId
  readonly board: DirectConnections
  /** The peers of each kind of event. */
  readonly up: PeerId[]
  readonly down: PeerId[]
  readonly misbehaved: PeerId[]
}

const LATENCY = 10

/** A tab with its own connections. */
function tab(n: number, { stun = [] as string[] } = {}): Board {
  const self = name(n)
  const events = { up: [] as PeerId[], down: [] as PeerId[], misbehaved: [] as PeerId[] }
  const board = directConnections(net.make)({
    clock,
    random: () => (n % 97) / 100,
    self: () => self,
    stun: () => stun,
    send: (to, bytes) => {
      const signal = JSON.parse(new TextDecoder().decode(bytes)) as Signal
      sent.push({ from: self, to, signal })
      const other = boards.get(to)
      if (isLost(self, signal)) return new Promise((resolve) => clock.after(5 * LATENCY, () => resolve(false)))
      if (other !== undefined && detained !== null) detained.push(() => other.board.handleSignal(self, bytes))
      else if (other !== undefined) clock.after(LATENCY, () => other.board.handleSignal(self, bytes))
      return Promise.resolve(other !== undefined)
    },
    emit: ({ kind, peer }) => {
      if (kind === 'up' || kind === 'down' || kind === 'misbehaved') events[kind].push(peer)
      if (kind === 'misbehaved') board.forget(peer)
    },
  })
  const made = { name: self, board, ...events }
  boards.set(self, made)
  return made
}

const kinds = (from: Board) => sent.filter((each) => each.from === from.name).map(({ signal }) => signal.kind)
const areLinked = (a: Board, b: Board) => a.up.includes(b.name) && b.up.includes(a.name)
/** The first calls the second. */
async function linked(a: Board, b: Board): Promise<[Board, Board]> {
  a.board.connect(b.name)
  await clock.until(() => areLinked(a, b))
  return [a, b]
}
/** Two peers that call each other. */
async function bothCalling(): Promise<[Board, Board]> {
  const [a, b] = [tab(1), tab(2)]
  a.board.connect(b.name)
  b.board.connect(a.name)
  await clock.until(() => areLinked(a, b))
  return [a, b]
}
const settle = async (milliseconds: number) => {
  const until = clock.now() + milliseconds
  clock.after(milliseconds, () => {})
  await clock.until(() => clock.now() >= until)
}

describe('a call between two peers', () => {
  it('is an offer, an answer, and candidates that are sent together', async () => {
    const [a, b] = [tab(1), tab(2)]
    b.board.connect(a.name)
    await clock.until(() => areLinked(a, b))
    await settle(100)
    expect(kinds(b)).toEqual(['offer', 'candidates'])
    expect(kinds(a)).toEqual(['answer', 'candidates'])
    expect(net.connections.map(({ candidates }) => candidates)).toEqual([2, 2])
  })

  it('uses the server’s STUN address', async () => {
    const [a, b] = [tab(1, { stun: ['stun:example.org:4000', 'stun:example.org:4001'] }), tab(2)]
    a.board.connect(b.name)
    await clock.until(() => areLinked(a, b))
    expect(net.connections.map(({ configuration }) => configuration.iceServers)).toEqual([
      [{ urls: ['stun:example.org:4000', 'stun:example.org:4001'] }],
      [],
    ])
  })

  it('is a single one if both begin at once: the polite peer withdraws its offer, and answers on a new connection', async () => {
    const [a, b] = await bothCalling()
    await settle(1000)
    expect(net.connections.map(({ connectionState }) => connectionState)).toEqual(['closed', 'connected', 'connected'])
    expect([a, b].map((each) => kinds(each).filter((kind) => kind !== 'candidates'))).toEqual([['offer', 'answer'], ['offer']])
    // Chromium sometimes never finds a candidate after a rollback.
    expect([net.rollbacks, ...a.misbehaved, ...b.misbehaved]).toEqual([0])
  })

  it('that was withdrawn delays no later one', async () => {
    const [a, b] = [tab(1), tab(2)]
    net.isBlocked = true
    a.board.connect(b.name)
    b.board.connect(a.name)
    await clock.until(() => a.board.status(b.name).kind === 'none')
    expect(a.board.status(b.name)).toMatchObject({ failures: 1, again: 5000 })
  })

  it('keeps the candidates that arrive together with the offer that the polite peer accepts', async () => {
    const [a, b] = [tab(1), tab(2)]
    detained = []
    b.board.connect(a.name)
    await settle(100)
    const signals = detained
    detained = null
    a.board.connect(b.name)
    for (const deliver of signals) deliver()
    await clock.until(() => areLinked(a, b))
    await settle(100)
    expect(net.open.map(({ candidates }) => candidates)).toEqual([2, 2])
    expect(kinds(a)).toEqual(['answer', 'candidates'])
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it('continues if only the withdrawn offer was not delivered', async () => {
    isLost = (from, { kind }) => from === name(1) && kind === 'offer'
    const [a, b] = await bothCalling()
    await settle(1000)
    expect([a.down, b.down]).toEqual([[], []])
    expect(net.open).toHaveLength(2)
  })

  it('stays open if signals are lost that it does not need any more', async () => {
    isLost = (_from, { kind }) => kind === 'candidates'
    const [a, b] = await linked(tab(1), tab(2))
    await settle(1000)
    expect([...kinds(a), ...kinds(b)].filter((kind) => kind === 'candidates')).toHaveLength(2)
    expect([a.down, b.down]).toEqual([[], []])
    expect(net.open).toHaveLength(2)
  })

  it('fails when its offer is lost', async () => {
    const [a, b] = [tab(1), tab(2)]
    isLost = (_from, { kind }) => kind === 'offer'
    a.board.connect(b.name)
    await settle(1000)
    expect(a.board.status(b.name)).toMatchObject({ kind: 'none', failures: 1 })
    expect(net.open).toHaveLength(0)
  })

  it('is answered once, although offer and answer may arrive again', async () => {
    const [a, b] = await linked(tab(1), tab(2))
    const again = (kind: Signal['kind']) => encodeSignal(sent.find(({ signal }) => signal.kind === kind)?.signal as Signal)
    a.board.handleSignal(b.name, again('answer'))
    for (let times = 0; times < 2; times++) b.board.handleSignal(a.name, again('offer'))
    await settle(1000)
    expect(kinds(b)).toEqual(['answer', 'candidates'])
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
    expect(net.open).toHaveLength(2)
  })

  it('continues if an ignored offer arrives again', async () => {
    const [a, b] = await bothCalling()
    const offer = sent.find(({ from }) => from === a.name)?.signal as Signal
    b.board.handleSignal(a.name, encodeSignal(offer))
    await settle(20_000)
    expect(net.open).toHaveLength(2)
    expect([...a.down, ...b.down, ...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it.each<[string, Signal['kind']]>([
    ['the called peer', 'offer'],
    ['the caller', 'answer'],
  ])('fails without misbehaviour when the connection of %s fails before its event', async (_who, kind) => {
    const [a, b] = [tab(1), tab(2)]
    detained = []
    a.board.connect(b.name)
    for (let i = 0; i < 100 && sent.at(-1)?.signal.kind !== kind; i++) {
      for (const deliver of detained.splice(0)) deliver()
      await settle(1)
    }
    for (const deliver of detained.splice(0)) deliver()
    net.connections.at(kind === 'offer' ? 1 : 0)?.close()
    detained = null
    await settle(1000)
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
    expect(sent.filter(({ signal }) => signal.kind === 'hang_up').map(({ signal }) => signal)).toMatchObject([{ reason: 'failed' }])
    expect([a.up, b.up]).toEqual([[], []])
  })

  it('is replaced by a new call after several restarts, and neither side counts as misbehaving', async () => {
    const [a, b] = await linked(tab(1), tab(2))
    for (let breaks = 0; breaks < 6; breaks++) {
      for (const connection of net.open) connection.become('failed')
      await settle(1000)
      for (const connection of net.connections) if (connection.connectionState === 'failed') connection.become('connected')
      await settle(1000)
    }
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
    expect(kinds(a).filter((kind) => kind === 'offer')).toHaveLength(6)
    expect(kinds(a).at(-1)).toBe('hang_up')
    expect(net.open).toEqual([])
    await settle(20_000)
    a.board.connect(b.name)
    await clock.until(() => net.open.length === 2)
  })

  it('is restarted by its caller as soon as its connection is down, but not at every short break', async () => {
    const [a, b] = await linked(tab(1), tab(2))
    const offers = () => kinds(a).filter((kind) => kind === 'offer').length
    for (let breaks = 1; breaks <= 5; breaks++) {
      for (const connection of net.open) connection.become('disconnected')
      await settle(1000)
      for (const connection of net.connections) if (connection.connectionState === 'disconnected') connection.become('connected')
      await settle(1000)
      expect(offers()).toBe(Math.min(1 + breaks, 4))
    }
    expect(kinds(b)).not.toContain('offer')
    expect(net.open).toHaveLength(2)
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it('is not repeated more often than the other side allows', async () => {
    const [a, b] = [tab(1), tab(2)]
    for (let second = 0; second < 70; second++) {
      a.board.connect(b.name)
      await settle(1000)
      const call = sent.findLast(({ from, signal }) => from === a.name && signal.kind === 'offer')?.signal.call ?? 0
      if (net.open.length > 0) a.board.handleSignal(b.name, encodeSignal({ kind: 'hang_up', call, reason: 'failed' }))
    }
    expect(a.up.length).toBeGreaterThan(4)
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it('is retried within seconds after a failure', async () => {
    net.isBlocked = true
    const [a, b] = [tab(1), tab(2)]
    a.board.connect(b.name)
    await clock.until(() => net.connections.every(({ signalingState }) => signalingState === 'closed'))
    net.isBlocked = false
    const failedAt = clock.now()
    while (!areLinked(a, b)) {
      a.board.connect(b.name)
      await settle(500)
    }
    expect(clock.now() - failedAt).toBeLessThan(10_000)
  })

  it('is not started twice', async () => {
    const [a, b] = [tab(1), tab(2)]
    for (let i = 0; i < 5; i++) a.board.connect(b.name)
    await clock.until(() => areLinked(a, b))
    a.board.connect(b.name)
    b.board.connect(a.name)
    await settle(1000)
    expect(net.connections).toHaveLength(2)
  })

  it('ends if it does not come up, and is retried a few times', async () => {
    net.isBlocked = true
    const [a, b] = [tab(1), tab(2)]
    for (let minute = 0; minute < 10; minute++) {
      a.board.connect(b.name)
      await settle(60_000)
    }
    expect(kinds(a).filter((kind) => kind === 'offer')).toHaveLength(3)
    expect(net.connections.every(({ signalingState }) => signalingState === 'closed')).toBe(true)
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it('ends at once if the peer has left', async () => {
    const a = tab(1)
    a.board.connect(name(9))
    await clock.until(() => net.connections[0]?.signalingState === 'closed')
    expect(clock.now()).toBeLessThan(1000)
  })

  it('ends on both sides when one hangs up or its connection closes', async () => {
    const [a, b] = await linked(tab(1), tab(2))
    b.board.closeAll()
    await clock.until(() => a.down.length === 1)
    expect(net.open).toEqual([])
  })

  it('continues on the same connection when it comes back', async () => {
    const [a, b] = await linked(tab(1), tab(2))
    net.cut()
    await clock.until(() => a.down.length === 1 && b.down.length === 1)
    net.heal()
    await clock.until(() => a.up.length === 2 && b.up.length === 2)
    expect(net.connections).toHaveLength(2)
  })
})

describe('the connections of a tab', () => {
  it('are at most twelve, and further calls are answered with busy', async () => {
    const busy = tab(50)
    const callers = Array.from({ length: 14 }, (_, n) => tab(n + 1))
    for (const caller of callers) caller.board.connect(busy.name)
    await clock.until(() => busy.up.length === 12)
    await settle(1000)
    expect(busy.up).toHaveLength(12)
    expect(sent.filter(({ signal }) => signal.kind === 'hang_up').map(({ signal }) => signal)).toEqual([
      { kind: 'hang_up', call: expect.any(Number), reason: 'busy' },
      { kind: 'hang_up', call: expect.any(Number), reason: 'busy' },
    ])
  })

  it('are taken from the peer that was idle longest', async () => {
    const busy = tab(50)
    const callers = Array.from({ length: 13 }, (_, n) => tab(n + 1))
    for (const caller of callers.slice(0, 12)) {
      caller.board.connect(busy.name)
      await clock.until(() => caller.up.length === 1)
    }
    await settle(11_000)
    callers[12]?.board.connect(busy.name)
    await clock.until(() => callers[12]?.up.length === 1)
    expect(callers[0]?.down).toHaveLength(1)
  })

  it('may be refused by the browser', async () => {
    net.max = 0
    const [a, b] = [tab(1), tab(2)]
    a.board.connect(b.name)
    await settle(1000)
    expect(sent).toEqual([])
    expect(a.misbehaved).toEqual([])
  })
})

describe('a peer is dropped', () => {
  const sdp = (connection: string) => `v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n${connection}\r\n`
  const offer = (call: number): Signal => ({ kind: 'offer', call, sdp: sdp('a=line:0') })
  const sendSignals = (board: Board, ...signals: Signal[]) => {
    for (const signal of signals) board.board.handleSignal(name(9), encodeSignal(signal))
  }

  it('when its signal cannot be decoded', () => {
    const a = tab(1)
    a.board.handleSignal(name(9), Uint8Array.of(1, 2, 3))
    expect(a.misbehaved).toEqual([name(9)])
    expect(net.connections).toEqual([])
  })

  it('when the browser rejects its description', async () => {
    const a = tab(1)
    sendSignals(a, { kind: 'offer', call: 1, sdp: sdp('a=garbage') })
    await clock.until(() => a.misbehaved.length === 1)
    expect(net.connections[0]?.signalingState).toBe('closed')
  })

  it('when it sends an answer without an offer', async () => {
    const [a] = await linked(tab(1), tab(9))
    const call = sent[0]?.signal.call ?? 0
    sendSignals(a, { kind: 'answer', call, sdp: sdp('a=line:7') })
    await clock.until(() => a.misbehaved.length === 1)
  })

  it.each<[string, (n: number) => Signal[], connectionsMax: number]>([
    ['begins too many calls', (call) => [offer(call), { kind: 'hang_up', call, reason: 'over' }], 8],
    ['repeats the same offer too often', () => [offer(1)], 1],
    ['sends too many signals', (call) => Array<Signal>(50).fill({ kind: 'hang_up', call, reason: 'over' }), 0],
  ])('when it %s', async (_what, signals, connectionsMax) => {
    const [a] = [tab(1), tab(9)]
    for (let n = 0; n < 20 && a.misbehaved.length === 0; n++) {
      sendSignals(a, ...signals(n))
      await settle(100)
    }
    expect(a.misbehaved[0]).toBe(name(9))
    expect(net.connections.length).toBeLessThanOrEqual(connectionsMax)
    expect(net.connections.every(({ signalingState }) => signalingState === 'closed')).toBe(true)
  })

  it('when too many of its candidates are rejected', async () => {
    const [a] = await linked(tab(1), tab(9))
    const call = sent[0]?.signal.call ?? 0
    const nonsense = { candidate: 'candidate:1 1 udp 1 here 1 typ host', sdpMid: '0', sdpMLineIndex: 0 }
    sendSignals(a, { kind: 'candidates', call, candidates: Array(8).fill(nonsense) })
    await settle(100)
    expect(a.misbehaved).toEqual([])
    sendSignals(a, { kind: 'candidates', call, candidates: [nonsense] })
    await clock.until(() => a.misbehaved.length === 1)
  })

  it('but not for signals of a call that has ended', async () => {
    const a = tab(1)
    sendSignals(a, { kind: 'answer', call: 3, sdp: sdp('') }, { kind: 'hang_up', call: 3, reason: 'over' })
    await settle(100)
    expect(a.misbehaved).toEqual([])
    expect(net.connections).toEqual([])
  })
})

describe('the network of one of two peers', () => {
  const host = (port: number) => `candidate:1 1 udp 9 10.0.0.2 ${port} typ host`
  const outer = (port: number) => `candidate:2 1 udp 5 192.0.2.1 ${port} typ srflx raddr 10.0.0.2 rport 7`
  /** Two peers whose connections have these candidates and never come up. */
  function blockedPair(stun: string[], ...candidates: ((port: number) => string)[]) {
    net.isBlocked = true
    net.candidateOf = (connection, port) => candidates[connection]?.(port) ?? ''
    const [a, b] = [tab(1, { stun }), tab(2, { stun })]
    a.board.connect(b.name)
    return { a, b }
  }
  const STUN = ['stun:example.org:3478', 'stun:example.org:3479']
  const statusOf = (from: Board, to: Board) => from.board.status(to.name)

  it('is known on both sides before the call fails, and afterwards', async () => {
    const { a, b } = blockedPair(STUN, outer, host)
    await settle(200)
    expect(statusOf(a, b)).toEqual({ kind: 'calling', hindrance: 'symmetric-here' })
    expect(statusOf(b, a)).toEqual({ kind: 'calling', hindrance: 'symmetric-there' })
    await settle(1_000)
    // The other side has found no outer address: no connection is possible, whatever the NAT does.
    expect(statusOf(a, b)).toEqual({ kind: 'calling', hindrance: 'no-udp-there' })
    expect(statusOf(b, a)).toEqual({ kind: 'calling', hindrance: 'no-udp-here' })
    await settle(15_000)
    expect([statusOf(a, b), statusOf(b, a)]).toMatchObject([{ why: 'no-udp-there' }, { why: 'no-udp-here' }])
  })

  it('is not guessed without a STUN server', async () => {
    const { a, b } = blockedPair([], host, host)
    await settle(2_000)
    expect(statusOf(a, b)).toEqual({ kind: 'calling', hindrance: null })
  })
})
