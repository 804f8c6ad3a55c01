import type { PeerId } from '../../bitswap/index.ts'
import type { Millis } from '../clock.ts'
import type { DirectConnections, DirectConnectionsDeps, DirectStatus, Hindrance, NoDirectReason } from '../direct-paths.ts'
import type { MakeRtcConnection } from './rtc-interfaces.ts'
import { Call, type CallEvent, type Evidence } from './call.ts'
import { RtcConnectionPool } from './rtc-connection-pool.ts'
import { decodeSignal, encodeSignal, type HangUpReason, type Signal } from './signal.ts'

/** After this many failed calls, a peer is not called any more. */
const FAILURES_MAX = 3
/** The pause after a failed call, doubled each time, and the pause after a call that got no connection. */
const FAILURE_PAUSE: Millis = 5_000
const BUSY_PAUSE: Millis = 30_000
/** Signals of one peer in ten seconds, and calls that it may begin in a minute. An honest peer needs fewer. */
const SIGNALS_MAX = 150
const SIGNALS_PERIOD: Millis = 10_000
const CALLS_MAX = 8
const CALLS_PERIOD: Millis = 60_000
/** The time between the starts of two calls to one peer. It is within the limit that the peer allows. */
const CALL_PAUSE: Millis = 10_000
/** The most times that a peer may send the same offer. It is repeated if no reply arrives, see `Signals`. */
const OFFER_REPEATS_MAX = 4

/** The behaviour of a peer, and the results of calls to it. */
interface CallHistory {
  failures: number
  /** The earliest time of the next call. */
  callableAt: Millis
  /** The reason why the last call failed. `null` if none did. */
  failure: NoDirectReason | null
  signals: number
  signalsSince: Millis
  calls: number
  callsSince: Millis
  /** The last offer of this peer, and how often it was sent. */
  lastOffer: ReceivedOffer | null
}

interface ReceivedOffer {
  readonly call: number
  readonly sdp: string
  times: number
}

/** The direct connections of one page, over WebRTC. */
export class RtcConnections implements DirectConnections {
  readonly #pool: RtcConnectionPool
  readonly #deps: DirectConnectionsDeps
  readonly #calls = new Map<PeerId, Call>()
  readonly #histories = new Map<PeerId, CallHistory>()
  #isClosed = false

  constructor(pool: RtcConnectionPool, deps: DirectConnectionsDeps) {
    this.#pool = pool
    this.#deps = deps
  }

  get size(): number {
    return this.#calls.size
  }

  connect(peer: PeerId): void {
    const now = this.#deps.clock.now()
    const history = this.#historyOf(peer)
    if (this.#isClosed || this.#calls.has(peer) || history.failures >= FAILURES_MAX || history.callableAt > now) return
    const number = Math.floor(this.#deps.random() * 2 ** 32)
    const call = this.#begin(peer, number, true)
    history.callableAt = now + CALL_PAUSE
    if (call === null) {
      history.callableAt = now + BUSY_PAUSE
      history.failure = 'busy'
    } else call.offer()
  }

  handleSignal(peer: PeerId, bytes: Uint8Array): void {
    if (this.#isClosed) return
    const signal = decodeSignal(bytes)
    const isAgain = signal?.kind === 'offer' && this.#isRepeatedOffer(peer, signal)
    if (signal === null || this.#isOverLimit(peer, signal, isAgain)) {
      this.#deps.emit({ kind: 'misbehaved', peer })
      return
    }
    // A second answer would match no offer, and the call may have ended.
    if (isAgain) return
    const call = this.#calls.get(peer)
    if (call !== undefined && call.call === signal.call) {
      call.handleSignal(signal)
    } else if (signal.kind === 'offer') {
      this.#handleOffer(peer, call, signal)
    }
    // Any other signal belongs to a call that has ended.
  }

  status(peer: PeerId): DirectStatus {
    const call = this.#calls.get(peer)
    if (call?.path.isUp === true) return { kind: 'up' }
    if (call !== undefined) {
      const { evidence } = call
      return evidence.wasUp ? { kind: 'mending' } : { kind: 'calling', hindrance: hindranceOf(evidence) }
    }
    const history = this.#histories.get(peer)
    if (history === undefined || history.failure === null) return { kind: 'untried' }
    const { failure: why, failures, callableAt } = history
    const again = failures >= FAILURES_MAX ? null : Math.max(0, callableAt - this.#deps.clock.now())
    return { kind: 'none', why, failures, again }
  }

  forget(peer: PeerId): void {
    this.#histories.delete(peer)
    this.#calls.get(peer)?.end('over', false)
  }

  closeAll(): void {
    for (const call of [...this.#calls.values()]) call.end('over', false)
  }

  close(): void {
    this.#isClosed = true
    this.closeAll()
  }

  #handleOffer(peer: PeerId, current: Call | undefined, signal: Signal): void {
    if (current?.isOffering === true) {
      // Both sides have begun a call. The other side keeps its own.
      if (!this.#isPoliteTo(peer)) return
      this.#withdraw(peer, current)
    } else {
      // The peer has given up the call that is still open here.
      current?.end('over', false)
    }
    const call = this.#begin(peer, signal.call, false)
    if (call === null) this.#send(peer, { kind: 'hang_up', call: signal.call, reason: 'busy' })
    else call.handleSignal(signal)
  }

  /**
   * Gives up our own call for that of the peer, which gets a new connection: a connection of Chromium that rolls back its
   * offer while it begins to look for candidates sometimes never finds one.
   */
  #withdraw(peer: PeerId, call: Call): void {
    const history = this.#historyOf(peer)
    const { callableAt } = history
    call.end('over', false)
    // Our call did not fail, so it delays no other.
    history.callableAt = callableAt
  }

  #begin(peer: PeerId, number: number, isCaller: boolean): Call | null {
    const { clock, stun } = this.#deps
    const urls = [...stun()]
    let call: Call | null = null
    const holder = { idleSince: () => call?.idleSince() ?? null, release: () => call?.end('busy', true) }
    const configuration = { iceServers: urls.length === 0 ? [] : [{ urls }] }
    const connection = this.#pool.take(clock.now(), holder, configuration)
    if (connection === null) return null
    const newCall = new Call({
      call: number,
      connection,
      release: (released) => this.#pool.release(released),
      takeForLane: (release) => this.#pool.takeSpare(clock.now(), { idleSince: holder.idleSince, release }, configuration),
      isPolite: this.#isPoliteTo(peer),
      isCaller,
      asksStun: urls.length > 0,
      clock,
      send: (signal) => this.#send(peer, signal),
      emit: (event) => this.#handleCallEvent(peer, newCall, event),
    })
    call = newCall
    this.#calls.set(peer, newCall)
    return newCall
  }

  #handleCallEvent(peer: PeerId, call: Call, event: CallEvent): void {
    const { emit } = this.#deps
    if (event.kind === 'up') {
      const history = this.#historyOf(peer)
      history.failures = 0
      history.failure = null
      emit({ kind: 'up', peer, path: call.path })
    } else if (event.kind === 'ended') {
      this.#calls.delete(peer)
      emit({ kind: 'ended', peer })
      this.#noteEnd(peer, event.reason, call.evidence)
    } else emit({ ...event, peer })
  }

  #send(peer: PeerId, signal: Signal): void {
    void this.#deps.send(peer, encodeSignal(signal)).then((isHeard) => {
      if (isHeard || signal.kind === 'hang_up') return
      const call = this.#calls.get(peer)
      // It does not matter whether an offer arrived that was withdrawn, and an open connection needs no signal.
      if (call?.call === signal.call && !call.path.isUp) call.end('failed', false)
    })
  }

  #noteEnd(peer: PeerId, reason: HangUpReason, evidence: Evidence): void {
    const history = this.#histories.get(peer)
    if (history === undefined) return
    const now = this.#deps.clock.now()
    const pause = reason === 'failed' ? FAILURE_PAUSE * 2 ** history.failures++ : BUSY_PAUSE
    history.callableAt = Math.max(history.callableAt, now + pause)
    history.failure = reasonOf(reason, evidence)
  }

  /** The peer with the lower id is polite. */
  #isPoliteTo(peer: PeerId): boolean {
    return (this.#deps.self() ?? '') < peer
  }

  /** Whether this is the last offer of this peer again. Signals of one peer arrive in order. */
  #isRepeatedOffer(peer: PeerId, { call, sdp }: Signal & { kind: 'offer' | 'answer' }): boolean {
    const history = this.#historyOf(peer)
    const { lastOffer } = history
    if (lastOffer?.call === call && lastOffer.sdp === sdp) {
      lastOffer.times++
      return true
    }
    history.lastOffer = { call, sdp, times: 1 }
    return false
  }

  #isOverLimit(peer: PeerId, signal: Signal, isAgain: boolean): boolean {
    const history = this.#historyOf(peer)
    const now = this.#deps.clock.now()
    if (now - history.signalsSince >= SIGNALS_PERIOD) {
      history.signals = 0
      history.signalsSince = now
    }
    if (now - history.callsSince >= CALLS_PERIOD) {
      history.calls = 0
      history.callsSince = now
    }
    const isNew = signal.kind === 'offer' && !isAgain && this.#calls.get(peer)?.call !== signal.call
    if (isNew) history.calls++
    const timesSaid = history.lastOffer?.times ?? 0
    return ++history.signals > SIGNALS_MAX || history.calls > CALLS_MAX || timesSaid > OFFER_REPEATS_MAX
  }

  /** Kept while the peer is here. There are few peers. */
  #historyOf(peer: PeerId): CallHistory {
    const known = this.#histories.get(peer)
    if (known !== undefined) return known
    const now = this.#deps.clock.now()
    const history: CallHistory = {
      failures: 0,
      callableAt: 0,
      failure: null,
      signals: 0,
      signalsSince: now,
      calls: 0,
      callsSince: now,
      lastOffer: null,
    }
    this.#histories.set(peer, history)
    return history
  }
}

function reasonOf(reason: HangUpReason, evidence: Evidence): NoDirectReason | null {
  const { wasAnswered, wasUp, ourCandidates, theirCandidates } = evidence
  if (reason === 'busy') return 'busy'
  if (wasUp) return 'cut'
  if (reason === 'over') return null
  if (!wasAnswered) return 'unanswered'
  if (ourCandidates === 0) return 'hidden-here'
  return theirCandidates === 0 ? 'hidden-there' : (hindranceOf(evidence) ?? 'unreachable')
}

/** Without UDP, or without a common IP version, no connection is possible. A symmetric NAT is accepted by some networks. */
function hindranceOf(evidence: Evidence): Hindrance | null {
  return hindranceOfKind('no-udp', evidence) ?? (evidence.hasNoCommonIpVersion ? 'ip-versions' : hindranceOfKind('symmetric', evidence))
}

function hindranceOfKind(kind: 'no-udp' | 'symmetric', { ourNetwork, theirNetwork }: Evidence): Hindrance | null {
  if (ourNetwork === kind) return theirNetwork === kind ? `${kind}-both` : `${kind}-here`
  return theirNetwork === kind ? `${kind}-there` : null
}

/** Makes the direct connections of each page of a tab. All pages share one pool. */
export function directConnections(make: MakeRtcConnection): (deps: DirectConnectionsDeps) => RtcConnections {
  const pool = new RtcConnectionPool(make)
  return (deps) => new RtcConnections(pool, deps)
}
