import { beforeEach, describe, expect, it } from 'vitest'
import type { PeerId } from '../../bitswap/index.ts'
import { PretendClock } from '../pretend-clock.ts'
import { encodeSignal, type Signal } from './signal.ts'
import { PretendLines } from './pretend-lines.ts'
import { switchboards, type Switchboard } from './switchboard.ts'

const name = (n: number) => n.toString(16).padStart(16, '0') as PeerId

let clock: PretendClock
let net: PretendLines
let said: { from: PeerId; to: PeerId; signal: Signal }[]
let boards: Map<PeerId, Board>
/** What was said and is not yet delivered; `null` while all is delivered by itself. */
let detained: (() => void)[] | null
/** What the server cannot pass on, as it says after a while. */
let isLost: (from: PeerId, signal: Signal) => boolean
beforeEach(() => {
  detained = null
  isLost = () => false
  clock = new PretendClock()
  net = new PretendLines(clock)
  said = []
  boards = new Map()
})

interface Board {
  readonly name: PeerId
  readonly board: Switchboard
  readonly up: PeerId[]
  readonly down: PeerId[]
  readonly misbehaved: PeerId[]
}

const LATENCY = 10

/** A tab of its own, with its own lines. */
function tab(n: number, { stun = null as string | null } = {}): Board {
  const self = name(n)
  const [up, down, misbehaved]: PeerId[][] = [[], [], []]
  const board = switchboards(net.make)({
    clock,
    random: () => (n % 97) / 100,
    self: () => self,
    stun: () => stun,
    say: (to, bytes) => {
      const signal = JSON.parse(new TextDecoder().decode(bytes)) as Signal
      said.push({ from: self, to, signal })
      const other = boards.get(to)
      if (isLost(self, signal)) return new Promise((resolve) => clock.after(5 * LATENCY, () => resolve(false)))
      if (other !== undefined && detained !== null) detained.push(() => other.board.hear(self, bytes))
      else if (other !== undefined) clock.after(LATENCY, () => other.board.hear(self, bytes))
      return Promise.resolve(other !== undefined)
    },
    up: (peer) => up?.push(peer),
    down: (peer) => down?.push(peer),
    over: () => {},
    segment: () => {},
    misbehaved: (peer) => {
      misbehaved?.push(peer)
      board.forget(peer)
    },
  })
  const made = { name: self, board, up: up ?? [], down: down ?? [], misbehaved: misbehaved ?? [] }
  boards.set(self, made)
  return made
}

const kinds = (from: Board) => said.filter((each) => each.from === from.name).map(({ signal }) => signal.kind)
const areLinked = (a: Board, b: Board) => a.up.includes(b.name) && b.up.includes(a.name)
const settle = async (milliseconds: number) => {
  const until = clock.now() + milliseconds
  clock.after(milliseconds, () => {})
  await clock.until(() => clock.now() >= until)
}

describe('a call', () => {
  it('is an offer, an answer, and candidates that travel together', async () => {
    const [a, b] = [tab(1), tab(2)]
    b.board.call(a.name)
    await clock.until(() => areLinked(a, b))
    await settle(100)
    expect(kinds(b)).toEqual(['offer', 'candidates'])
    expect(kinds(a)).toEqual(['answer', 'candidates'])
    expect(net.lines.map(({ candidates }) => candidates)).toEqual([2, 2])
  })

  it('asks the server how it is seen from outside', async () => {
    const [a, b] = [tab(1, { stun: 'stun:example.org:4000' }), tab(2)]
    a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    expect(net.lines.map(({ configuration }) => configuration.iceServers)).toEqual([[{ urls: 'stun:example.org:4000' }], []])
  })

  it('is one when both begin at once: the polite one takes its own back', async () => {
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    b.board.call(a.name)
    await clock.until(() => areLinked(a, b))
    await settle(1000)
    expect(net.lines).toHaveLength(2)
    expect(kinds(a).filter((kind) => kind !== 'candidates')).toEqual(['offer', 'answer'])
    expect(kinds(b).filter((kind) => kind !== 'candidates')).toEqual(['offer'])
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it('has the candidates that come in one go with the offer for which the polite one gives way', async () => {
    const [a, b] = [tab(1), tab(2)]
    detained = []
    b.board.call(a.name)
    await settle(100)
    const come = detained
    detained = null
    a.board.call(b.name)
    for (const hear of come) hear()
    await clock.until(() => areLinked(a, b))
    await settle(100)
    expect(net.lines[1]?.candidates).toBe(2)
    expect(kinds(a)).toEqual(['answer', 'candidates'])
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it('goes on when only the offer that was taken back is not heard', async () => {
    const [a, b] = [tab(1), tab(2)]
    isLost = (from, { kind }) => from === a.name && kind === 'offer'
    a.board.call(b.name)
    b.board.call(a.name)
    await clock.until(() => areLinked(a, b))
    await settle(1000)
    expect([a.down, b.down]).toEqual([[], []])
    expect(net.open).toHaveLength(2)
  })

  it('is answered but once, though the answer may be said again', async () => {
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    const answer = said.find(({ signal }) => signal.kind === 'answer')?.signal as Signal
    a.board.hear(b.name, encodeSignal(answer))
    await settle(100)
    expect(a.misbehaved).toEqual([])
    expect(net.open).toHaveLength(2)
  })

  it('is answered but once, though the offer may be said again', async () => {
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    const offer = encodeSignal(said[0]?.signal as Signal)
    b.board.hear(a.name, offer)
    b.board.hear(a.name, offer)
    await settle(1000)
    expect(kinds(b)).toEqual(['answer', 'candidates'])
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
    expect(net.open).toHaveLength(2)
  })

  it('goes on when the offer for which nobody gave way is said again', async () => {
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    b.board.call(a.name)
    await clock.until(() => areLinked(a, b))
    const offer = said.find(({ from }) => from === a.name)?.signal as Signal
    b.board.hear(a.name, encodeSignal(offer))
    await settle(20_000)
    expect(net.open).toHaveLength(2)
    expect([...a.down, ...b.down, ...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it.each<[string, Signal['kind']]>([
    ['the one who is called', 'offer'],
    ['the one who calls', 'answer'],
  ])('fails without anybody\'s ill will when the line of %s fails before that tells so', async (_who, kind) => {
    const [a, b] = [tab(1), tab(2)]
    detained = []
    a.board.call(b.name)
    for (let i = 0; i < 100 && said.at(-1)?.signal.kind !== kind; i++) {
      for (const hear of detained.splice(0)) hear()
      await settle(1)
    }
    for (const hear of detained.splice(0)) hear()
    net.lines.at(kind === 'offer' ? 1 : 0)?.close()
    detained = null
    await settle(1000)
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
    expect(said.filter(({ signal }) => signal.kind === 'hang_up').map(({ signal }) => signal)).toMatchObject([{ reason: 'failed' }])
    expect([a.up, b.up]).toEqual([[], []])
  })

  it('whose line breaks again and again is begun anew in the end, and nobody is accused', async () => {
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    for (let breaks = 0; breaks < 6; breaks++) {
      for (const line of net.open) line.become('failed')
      await settle(1000)
      for (const line of net.lines) if (line.connectionState === 'failed') line.become('connected')
      await settle(1000)
    }
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
    expect(kinds(a).filter((kind) => kind === 'offer')).toHaveLength(6)
    expect(kinds(a).at(-1)).toBe('hang_up')
    expect(net.open).toEqual([])
    await settle(20_000)
    a.board.call(b.name)
    await clock.until(() => net.open.length === 2)
  })

  it('is begun no more often, though each comes up and fails, than the other side allows', async () => {
    const [a, b] = [tab(1), tab(2)]
    for (let second = 0; second < 70; second++) {
      a.board.call(b.name)
      await settle(1000)
      const call = said.findLast(({ from, signal }) => from === a.name && signal.kind === 'offer')?.signal.call ?? 0
      if (net.open.length > 0) a.board.hear(b.name, encodeSignal({ kind: 'hang_up', call, reason: 'failed' }))
    }
    expect(a.up.length).toBeGreaterThan(4)
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it('that failed is tried again before a person has lost patience', async () => {
    net.isBlocked = true
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    await clock.until(() => net.lines.every(({ signalingState }) => signalingState === 'closed'))
    net.isBlocked = false
    const failedAt = clock.now()
    while (!areLinked(a, b)) {
      a.board.call(b.name)
      await settle(500)
    }
    expect(clock.now() - failedAt).toBeLessThan(10_000)
  })

  it('is not begun twice', async () => {
    const [a, b] = [tab(1), tab(2)]
    for (let i = 0; i < 5; i++) a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    a.board.call(b.name)
    b.board.call(a.name)
    await settle(1000)
    expect(net.lines).toHaveLength(2)
  })

  it('that does not come up is given up, and tried again later, but not for ever', async () => {
    net.isBlocked = true
    const [a, b] = [tab(1), tab(2)]
    for (let minute = 0; minute < 10; minute++) {
      a.board.call(b.name)
      await settle(60_000)
    }
    expect(kinds(a).filter((kind) => kind === 'offer')).toHaveLength(3)
    expect(net.lines.every(({ signalingState }) => signalingState === 'closed')).toBe(true)
    expect([...a.misbehaved, ...b.misbehaved]).toEqual([])
  })

  it('to somebody who is not there any more ends at once', async () => {
    const a = tab(1)
    a.board.call(name(9))
    await clock.until(() => net.lines[0]?.signalingState === 'closed')
    expect(clock.now()).toBeLessThan(1000)
  })

  it('ends for both when one hangs up, or its line closes', async () => {
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    b.board.hangUp()
    await clock.until(() => a.down.length === 1)
    expect(net.open).toEqual([])
  })

  it('goes on over the same line when that comes back', async () => {
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    net.cut()
    await clock.until(() => a.down.length === 1 && b.down.length === 1)
    net.heal()
    await clock.until(() => a.up.length === 2 && b.up.length === 2)
    expect(net.lines).toHaveLength(2)
  })
})

describe('the lines of a tab', () => {
  it('are twelve at most, and whoever calls beyond is told that it is busy', async () => {
    const busy = tab(50)
    const callers = Array.from({ length: 14 }, (_, n) => tab(n + 1))
    for (const caller of callers) caller.board.call(busy.name)
    await clock.until(() => busy.up.length === 12)
    await settle(1000)
    expect(busy.up).toHaveLength(12)
    expect(said.filter(({ signal }) => signal.kind === 'hang_up').map(({ signal }) => signal)).toEqual([
      { kind: 'hang_up', call: expect.any(Number), reason: 'busy' }, { kind: 'hang_up', call: expect.any(Number), reason: 'busy' },
    ])
  })

  it('go from who had the longest pause to who needs one', async () => {
    const busy = tab(50)
    const callers = Array.from({ length: 13 }, (_, n) => tab(n + 1))
    for (const caller of callers.slice(0, 12)) {
      caller.board.call(busy.name)
      await clock.until(() => caller.up.length === 1)
    }
    await settle(11_000)
    callers[12]?.board.call(busy.name)
    await clock.until(() => callers[12]?.up.length === 1)
    expect(callers[0]?.down).toHaveLength(1)
  })

  it('that the browser does not make are done without', async () => {
    net.max = 0
    const [a, b] = [tab(1), tab(2)]
    a.board.call(b.name)
    await settle(1000)
    expect(said).toEqual([])
    expect(a.misbehaved).toEqual([])
  })
})

describe('a peer is sent away', () => {
  const sdp = (line: string) => `v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n${line}\r\n`
  const say = (board: Board, ...signals: Signal[]) => {
    for (const signal of signals) board.board.hear(name(9), encodeSignal(signal))
  }

  it('when it says what cannot be read', () => {
    const a = tab(1)
    a.board.hear(name(9), Uint8Array.of(1, 2, 3))
    expect(a.misbehaved).toEqual([name(9)])
    expect(net.lines).toEqual([])
  })

  it('when the browser can make nothing of its description', async () => {
    const a = tab(1)
    say(a, { kind: 'offer', call: 1, sdp: sdp('a=garbage') })
    await clock.until(() => a.misbehaved.length === 1)
    expect(net.lines[0]?.signalingState).toBe('closed')
  })

  it('when it answers what nobody asked', async () => {
    const [a, b] = [tab(1), tab(9)]
    a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    const call = said[0]?.signal.call ?? 0
    say(a, { kind: 'answer', call, sdp: sdp('a=line:7') })
    await clock.until(() => a.misbehaved.length === 1)
  })

  it('when it changes its mind again and again', async () => {
    const a = tab(1)
    for (let call = 0; call < 20 && a.misbehaved.length === 0; call++) {
      say(a, { kind: 'offer', call, sdp: sdp('a=line:0') }, { kind: 'hang_up', call, reason: 'over' })
      await settle(100)
    }
    expect(a.misbehaved).toEqual([name(9)])
    expect(net.lines.length).toBeLessThanOrEqual(8)
    expect(net.lines.every(({ signalingState }) => signalingState === 'closed')).toBe(true)
  })

  it('when it offers the same call again and again', async () => {
    const [a] = [tab(1), tab(9)]
    for (let i = 0; i < 20 && a.misbehaved.length === 0; i++) {
      say(a, { kind: 'offer', call: 1, sdp: sdp('a=line:0') })
      await settle(100)
    }
    expect(a.misbehaved).toEqual([name(9)])
    expect(net.lines).toHaveLength(1)
  })

  it('when it floods', () => {
    const a = tab(1)
    for (let call = 0; call < 1000; call++) say(a, { kind: 'hang_up', call, reason: 'over' })
    expect(a.misbehaved[0]).toBe(name(9))
  })

  it('when its candidates are refused more often than a crossing can be the cause of', async () => {
    const [a, b] = [tab(1), tab(9)]
    a.board.call(b.name)
    await clock.until(() => areLinked(a, b))
    const call = said[0]?.signal.call ?? 0
    const nonsense = { candidate: 'candidate:1 1 udp 1 here 1 typ host', sdpMid: '0', sdpMLineIndex: 0 }
    say(a, { kind: 'candidates', call, candidates: Array(8).fill(nonsense) })
    await settle(100)
    expect(a.misbehaved).toEqual([])
    say(a, { kind: 'candidates', call, candidates: [nonsense] })
    await clock.until(() => a.misbehaved.length === 1)
  })

  it('but not when it speaks of a call that is over', async () => {
    const a = tab(1)
    say(a, { kind: 'answer', call: 3, sdp: sdp('') }, { kind: 'hang_up', call: 3, reason: 'over' })
    await settle(100)
    expect(a.misbehaved).toEqual([])
    expect(net.lines).toEqual([])
  })
})
