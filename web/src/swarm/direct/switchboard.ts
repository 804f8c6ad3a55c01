import type { PeerId } from '../../bitswap/index.ts'
import type { Clock, Millis, Obstacle, Reach } from '../api.ts'
import type { Segment } from '../segment.ts'
import type { Way } from '../two-way-peer.ts'
import type { MakeLine } from './line.ts'
import { Call, type Evidence } from './call.ts'
import { LinePool } from './pool.ts'
import { decodeSignal, encodeSignal, type HangUpReason, type Signal } from './signal.ts'

/** Calls to one peer that may fail before it is called no more. */
const FAILURES_MAX = 3
/** Pause after a failed call, doubled each time; and after one that had no line. */
const FAILURE_PAUSE: Millis = 5_000
const BUSY_PAUSE: Millis = 30_000
/** Signals of one peer in ten seconds, and calls it may begin in a minute: nobody honest needs as many. */
const SIGNALS_MAX = 150
const SIGNALS_PERIOD: Millis = 10_000
const CALLS_MAX = 8
const CALLS_PERIOD: Millis = 60_000
/** Between the beginnings of two calls to one peer, which is less often than it allows. */
const CALL_PAUSE: Millis = 10_000
/** How often one offer may be said: again when no answer tells whether it was heard, as `SignalBox` does. */
const OFFER_SAID_MAX = 4

export interface SwitchboardDeps {
  readonly clock: Clock
  readonly random: () => number
  /** Our own name on the page; `null` while we have none. */
  readonly self: () => PeerId | null
  /** Where to ask how we are seen from outside. */
  readonly stun: () => string | null
  /** Says something to a peer, sooner or later; `false` when it never will be heard. */
  readonly say: (to: PeerId, signal: Uint8Array<ArrayBuffer>) => Promise<boolean>
  readonly up: (peer: PeerId, way: Way) => void
  readonly down: (peer: PeerId) => void
  /** A call is over: what came over its line in part will not come whole there. */
  readonly over: (peer: PeerId) => void
  readonly segment: (peer: PeerId, segment: Segment) => void
  readonly misbehaved: (peer: PeerId) => void
}

/** How a peer has behaved, and what came of calling it. */
interface Conduct {
  failures: number
  /** Not before then is it called again. */
  callableAt: Millis
  /** Why the last call came to nothing; `null` while none did. */
  obstacle: Obstacle | null
  signals: number
  signalsSince: Millis
  calls: number
  callsSince: Millis
  /** The offer of its that was heard last, and how often. */
  lastOffer: OfferHeard | null
}

interface OfferHeard {
  readonly call: number
  readonly sdp: string
  timesSaid: number
}

/** The direct paths of one page: calls its peers, and is called. */
export class Switchboard {
  readonly #pool: LinePool
  readonly #deps: SwitchboardDeps
  readonly #calls = new Map<PeerId, Call>()
  readonly #conducts = new Map<PeerId, Conduct>()
  #isClosed = false

  constructor(pool: LinePool, deps: SwitchboardDeps) {
    this.#pool = pool
    this.#deps = deps
  }

  /** There is something to move between us and this peer. */
  call(peer: PeerId): void {
    const now = this.#deps.clock.now()
    const conduct = this.#conductOf(peer)
    if (this.#isClosed || this.#calls.has(peer) || conduct.failures >= FAILURES_MAX || conduct.callableAt > now) return
    const number = Math.floor(this.#deps.random() * 2 ** 32)
    const call = this.#begin(peer, number, true)
    conduct.callableAt = now + CALL_PAUSE
    if (call === null) {
      conduct.callableAt = now + BUSY_PAUSE
      conduct.obstacle = 'busy'
    } else call.offer()
  }

  /** A peer said something, which could be anything. */
  hear(peer: PeerId, bytes: Uint8Array): void {
    if (this.#isClosed) return
    const signal = decodeSignal(bytes)
    const isAgain = signal?.kind === 'offer' && this.#isSaidAgain(peer, signal)
    if (signal === null || this.#isTooMuch(peer, signal, isAgain)) {
      this.#deps.misbehaved(peer)
      return
    }
    // Answered twice, it would have an answer to nothing; and the call may be over by now.
    if (isAgain) return
    const call = this.#calls.get(peer)
    if (call !== undefined && call.call === signal.call) {
      call.hear(signal)
    } else if (signal.kind === 'offer') {
      this.#hearOffer(peer, call, signal)
    }
    // Anything else is about a call that is over by now.
  }

  /** How the direct way to a peer stands. */
  reach(peer: PeerId): Reach {
    const call = this.#calls.get(peer)
    if (call?.path.isUp === true) return { kind: 'up' }
    if (call !== undefined) return { kind: call.evidence.wasUp ? 'mending' : 'calling' }
    const conduct = this.#conducts.get(peer)
    if (conduct === undefined || conduct.obstacle === null) return { kind: 'untried' }
    const { obstacle: why, failures, callableAt } = conduct
    const again = failures >= FAILURES_MAX ? null : Math.max(0, callableAt - this.#deps.clock.now())
    return { kind: 'none', why, failures, again }
  }

  /** The peer has left, or we want no more of it. */
  forget(peer: PeerId): void {
    this.#conducts.delete(peer)
    this.#calls.get(peer)?.end('over', false)
  }

  /** Closes all lines; later there may be others. */
  hangUp(): void {
    for (const call of [...this.#calls.values()]) call.end('over', false)
  }

  close(): void {
    this.#isClosed = true
    this.hangUp()
  }

  #hearOffer(peer: PeerId, current: Call | undefined, signal: Signal): void {
    if (current?.isOffering === true) {
      // Both have begun. The polite one goes over to the other's call; the other stays with its own.
      if (this.#isPoliteTo(peer)) current.goOverTo(signal)
      return
    }
    // It has given up the call that we still knew.
    current?.end('over', false)
    const call = this.#begin(peer, signal.call, false)
    if (call === null) this.#say(peer, { kind: 'hang_up', call: signal.call, reason: 'busy' })
    else call.hear(signal)
  }

  #begin(peer: PeerId, number: number, isCaller: boolean): Call | null {
    const { clock, stun } = this.#deps
    const url = stun()
    let call: Call | null = null
    const holder = { idleSince: () => call?.idleSince() ?? null, giveUp: () => call?.end('busy', true) }
    const line = this.#pool.take(clock.now(), holder, { iceServers: url === null ? [] : [{ urls: url }] })
    if (line === null) return null
    const begun = new Call({
      call: number,
      line,
      giveBack: (given) => this.#pool.giveBack(given),
      isPolite: this.#isPoliteTo(peer),
      isCaller,
      clock,
      events: {
        say: (signal) => this.#say(peer, signal),
        up: () => {
          const conduct = this.#conductOf(peer)
          conduct.failures = 0
          conduct.obstacle = null
          this.#deps.up(peer, begun.path)
        },
        down: () => this.#deps.down(peer),
        segment: (segment) => this.#deps.segment(peer, segment),
        over: (reason) => {
          this.#calls.delete(peer)
          this.#deps.over(peer)
          this.#noteEnd(peer, reason, begun.evidence)
        },
        misbehaved: () => this.#deps.misbehaved(peer),
      },
    })
    call = begun
    this.#calls.set(peer, begun)
    return begun
  }

  #say(peer: PeerId, signal: Signal): void {
    void this.#deps.say(peer, encodeSignal(signal)).then((isHeard) => {
      const call = this.#calls.get(peer)
      // An offer that was taken back need not be heard any more.
      if (!isHeard && signal.kind !== 'hang_up' && call?.call === signal.call) call.end('failed', false)
    })
  }

  #noteEnd(peer: PeerId, reason: HangUpReason, evidence: Evidence): void {
    const conduct = this.#conducts.get(peer)
    if (conduct === undefined) return
    const now = this.#deps.clock.now()
    const pause = reason === 'failed' ? FAILURE_PAUSE * 2 ** conduct.failures++ : BUSY_PAUSE
    conduct.callableAt = Math.max(conduct.callableAt, now + pause)
    conduct.obstacle = obstacleOf(reason, evidence)
  }

  /** Whose name comes first gives way. */
  #isPoliteTo(peer: PeerId): boolean {
    return (this.#deps.self() ?? '') < peer
  }

  /** Whether it is the offer that was heard last from this peer; what one says comes in order. */
  #isSaidAgain(peer: PeerId, { call, sdp }: Signal & { kind: 'offer' | 'answer' }): boolean {
    const conduct = this.#conductOf(peer)
    const { lastOffer } = conduct
    if (lastOffer?.call === call && lastOffer.sdp === sdp) {
      lastOffer.timesSaid++
      return true
    }
    conduct.lastOffer = { call, sdp, timesSaid: 1 }
    return false
  }

  #isTooMuch(peer: PeerId, signal: Signal, isAgain: boolean): boolean {
    const conduct = this.#conductOf(peer)
    const now = this.#deps.clock.now()
    if (now - conduct.signalsSince >= SIGNALS_PERIOD) {
      conduct.signals = 0
      conduct.signalsSince = now
    }
    if (now - conduct.callsSince >= CALLS_PERIOD) {
      conduct.calls = 0
      conduct.callsSince = now
    }
    const isNew = signal.kind === 'offer' && !isAgain && this.#calls.get(peer)?.call !== signal.call
    if (isNew) conduct.calls++
    const timesSaid = conduct.lastOffer?.timesSaid ?? 0
    return ++conduct.signals > SIGNALS_MAX || conduct.calls > CALLS_MAX || timesSaid > OFFER_SAID_MAX
  }

  /** Kept while the peer is there, of whom there are few. */
  #conductOf(peer: PeerId): Conduct {
    const known = this.#conducts.get(peer)
    if (known !== undefined) return known
    const now = this.#deps.clock.now()
    const conduct: Conduct = {
      failures: 0, callableAt: 0, obstacle: null, signals: 0, signalsSince: now, calls: 0, callsSince: now, lastOffer: null,
    }
    this.#conducts.set(peer, conduct)
    return conduct
  }
}

function obstacleOf(reason: HangUpReason, { isHeard, wasUp, ours, theirs }: Evidence): Obstacle | null {
  if (reason === 'busy') return 'busy'
  if (wasUp) return 'cut'
  if (reason === 'over') return null
  if (ours === 0) return 'hidden-here'
  if (!isHeard) return 'unanswered'
  return theirs === 0 ? 'hidden-there' : 'unreachable'
}

/** Makes the switchboards of a tab, whose lines are counted together. */
export function switchboards(make: MakeLine): (deps: SwitchboardDeps) => Switchboard {
  const pool = new LinePool(make)
  return (deps) => new Switchboard(pool, deps)
}
