import type { Clock, Millis } from '../clock.ts'
import type { RtcConnection } from './rtc-interfaces.ts'
import { DirectPath, type InnerPathEvent, type PathEvent } from './path.ts'
import { LaneConnections } from './lane-connections.ts'
import { candidatesOf, haveNoCommonIpVersion, networkKind, type NetworkKind } from './network-kind.ts'
import type { Candidate, HangUpReason, Signal } from './signal.ts'

/** Timeout for a connection to come up, or to come back after a break. */
const CONNECT_MAX: Millis = 15_000
/** Candidates are found in bursts. They are collected this long and sent together. */
const CANDIDATES_PAUSE: Millis = 50
const CANDIDATES_PER_SIGNAL_MAX = 16
/** Candidates that one side may send in one call. Further ones of our own are not sent. */
const CANDIDATES_MAX = 64
/** Candidates that the browser may reject before the peer counts as misbehaving. A few may cross a restart. */
const REFUSED_CANDIDATES_MAX = 8
/** Offers of one call: the first, and restarts. The caller then begins a new call. */
const OFFERS_MAX = 6
/** Offers that are kept for restarts after a failure. A connection that is down for a moment often comes back by itself. */
const OFFERS_KEPT = 2
/** STUN has answered by then, if it can: it is asked at the same time as the first candidates are found. */
const STUN_ANSWER_MAX: Millis = 700

/** Facts about a call that show why it failed. */
export interface Evidence {
  /** Whether the other side sent anything. */
  readonly wasAnswered: boolean
  /** Whether the path was ever up. */
  readonly wasUp: boolean
  /** Candidates that this side sent, and that the other side sent. */
  readonly ourCandidates: number
  readonly theirCandidates: number
  /** The networks of both sides, as their candidates show them. */
  readonly ourNetwork: NetworkKind
  readonly theirNetwork: NetworkKind
  /** Whether the public addresses of the two sides are of different IP versions. */
  readonly hasNoCommonIpVersion: boolean
}

export type CallEvent =
  | Exclude<PathEvent, InnerPathEvent>
  /** The call has ended, and its connection was released. */
  | { readonly kind: 'ended'; readonly reason: HangUpReason }

export interface CallOptions {
  readonly call: number
  readonly connection: RtcConnection
  readonly release: (connection: RtcConnection) => void
  /** Takes a connection for a lane. `null` if none is to spare. */
  readonly takeForLane: (end: () => void) => RtcConnection | null
  /** Whether this side withdraws its offer if both sides offer at the same time. */
  readonly isPolite: boolean
  /** Whether this side began the call. The caller restarts the connection when it breaks. */
  readonly isCaller: boolean
  /** Whether both sides ask a STUN server for their outer addresses. */
  readonly asksStun: boolean
  readonly clock: Clock
  readonly send: (signal: Signal) => void
  readonly emit: (event: CallEvent) => void
}

/**
 * One attempt of two peers to connect, by WebRTC's perfect negotiation. Both sides may offer at any time. If both do at
 * the same time, the polite side withdraws its offer.
 */
export class Call {
  readonly call: number
  readonly path: DirectPath
  readonly #options: CallOptions
  readonly #lanes: LaneConnections
  /** Whether the other side takes lanes. */
  #takesLanes = false
  #isOver = false
  #isOffering = false
  /** Our offer is being withdrawn. Candidates found for it are useless. */
  #isWithdrawing = false
  /** An offer of the other side was ignored, and so are its candidates. */
  #ignoresOffer = false
  #offersMade = 0
  #offersReceived = 0
  #candidatesReceived = 0
  /** The candidates beside those in the descriptions, and when the first one of each side was known. */
  #ours: Candidate[] = []
  #theirs: Candidate[] = []
  #ourFirstAt: Millis | null = null
  #theirFirstAt: Millis | null = null
  #wasAnswered = false
  /** Our last description that was sent. Firefox throws when it is read from a closed connection. */
  #ourSdp = ''
  #theirSdp = ''
  #wasUp = false
  #refusedCandidates = 0
  #candidatesSent = 0
  #unsentCandidates: Candidate[] = []
  #stopCandidateTimer: (() => void) | null = null
  #cancelTimeout: (() => void) | null = null
  /** Signals are processed one after another, although each is asynchronous. */
  #processing: Promise<void> = Promise.resolve()

  constructor(options: CallOptions) {
    const { call, connection, clock } = options
    this.call = call
    this.#options = options
    // Negotiated in advance, so that neither side has to announce the channel.
    const channel = connection.createDataChannel('watchfire', { negotiated: true, id: 0 })
    this.path = new DirectPath(channel, clock, (event) => this.#handlePathEvent(event))
    this.#lanes = new LaneConnections({
      clock,
      isCaller: options.isCaller,
      take: options.takeForLane,
      release: options.release,
      send: (signal) => this.path.signalLane(signal),
      onOpen: (channel) => this.path.addLane(channel),
      onMisbehaviour: () => this.#reportMisbehaviour(),
    })
    connection.addEventListener('connectionstatechange', () => this.#handleConnectionState())
    connection.addEventListener('icecandidate', (event) => this.#queueCandidate((event as RTCPeerConnectionIceEvent).candidate))
    channel.addEventListener('close', () => this.end(this.#wasUp ? 'over' : 'failed', false))
    this.#startTimeout()
  }

  /** Since when nothing moved. `null` while something is being sent or the connection is coming up. */
  idleSince(): Millis | null {
    return this.path.isUp && !this.path.isBusy ? this.path.movedAt : null
  }

  get evidence(): Evidence {
    const inOurSdp = candidatesOf(this.#ourSdp)
    const inTheirSdp = candidatesOf(this.#theirSdp)
    const ours = [...inOurSdp, ...this.#ours.map(({ candidate }) => candidate)]
    const theirs = [...inTheirSdp, ...this.#theirs.map(({ candidate }) => candidate)]
    const isSettled = this.#isSettled(this.#ourFirstAt) && this.#isSettled(this.#theirFirstAt)
    return {
      wasAnswered: this.#wasAnswered,
      wasUp: this.#wasUp,
      ourCandidates: this.#candidatesSent + inOurSdp.length,
      theirCandidates: this.#candidatesReceived + inTheirSdp.length,
      ourNetwork: this.#networkOf(ours, this.#ourFirstAt),
      theirNetwork: this.#networkOf(theirs, this.#theirFirstAt),
      hasNoCommonIpVersion: isSettled && haveNoCommonIpVersion(ours, theirs),
    }
  }

  #networkOf(candidates: readonly string[], firstAt: Millis | null): NetworkKind {
    return this.#options.asksStun ? networkKind(candidates, this.#isSettled(firstAt)) : 'unknown'
  }

  /** Whether STUN has had the time to answer. */
  #isSettled(firstAt: Millis | null): boolean {
    return firstAt !== null && this.#options.clock.now() - firstAt >= STUN_ANSWER_MAX
  }

  /** Whether an offer of this side waits for its answer. */
  get isOffering(): boolean {
    return this.#isOffering || this.#options.connection.signalingState === 'have-local-offer'
  }

  /** Begins the call. */
  offer(): void {
    void this.#offer()
  }

  handleSignal(signal: Signal): void {
    this.#processing = this.#processing.then(() => this.#process(signal))
  }

  /** Ends the call. `tells`: whether the other side gets a hang-up. */
  end(reason: HangUpReason, tells: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#stopCandidateTimer?.()
    this.#cancelTimeout?.()
    if (tells) this.#options.send({ kind: 'hang_up', call: this.call, reason })
    this.path.close()
    this.#lanes.close()
    this.#options.release(this.#options.connection)
    this.#options.emit({ kind: 'ended', reason })
  }

  async #offer(): Promise<void> {
    if (++this.#offersMade > OFFERS_MAX) {
      this.end('failed', true)
      return
    }
    this.#isOffering = true
    try {
      await this.#options.connection.setLocalDescription()
      if (!this.#isOver && !this.#isWithdrawing) this.#describe('offer')
    } catch {
      this.end('failed', true)
    } finally {
      this.#isOffering = false
    }
  }

  #describe(kind: 'offer' | 'answer'): void {
    const sdp = this.#options.connection.localDescription?.sdp
    if (sdp === undefined) return
    this.#ourSdp = sdp
    this.#options.send({ kind, call: this.call, sdp, receipts: true, lanes: true })
  }

  async #process(signal: Signal): Promise<void> {
    if (this.#isOver) return
    if (signal.kind !== 'hang_up') this.#wasAnswered = true
    if (signal.kind === 'offer' || signal.kind === 'answer') {
      if (signal.receipts === true) this.path.useReceipts()
      this.#takesLanes = signal.lanes === true
    }
    switch (signal.kind) {
      case 'offer':
        await this.#processOffer(signal.sdp)
        return
      case 'answer':
        await this.#processAnswer(signal.sdp)
        return
      case 'candidates':
        for (const candidate of signal.candidates) await this.#processCandidate(candidate)
        return
      case 'hang_up':
        this.end(signal.reason, false)
        return
    }
  }

  #handlePathEvent(event: PathEvent): void {
    switch (event.kind) {
      case 'silent':
        this.#startTimeout()
        return
      case 'broken':
        this.end('failed', true)
        return
      case 'narrow':
        if (this.#takesLanes) this.#lanes.openAll()
        return
      case 'lane-signal':
        this.#lanes.handleSignal(event.signal)
        return
      case 'up':
        this.#wasUp = true
        this.#stopTimeout()
        break
      case 'down':
      case 'segment':
      case 'sent':
      case 'quiet':
      case 'misbehaved':
        break
    }
    this.#options.emit(event)
  }

  /** The other side sent invalid signals or frames. */
  #reportMisbehaviour(): void {
    this.#options.emit({ kind: 'misbehaved' })
  }

  #withdrawOffer(): void {
    this.#isWithdrawing = true
    this.#unsentCandidates = []
    this.#candidatesSent = 0
    this.#ours = []
  }

  async #processOffer(sdp: string): Promise<void> {
    if (++this.#offersReceived > OFFERS_MAX) {
      this.#reportMisbehaviour()
      return
    }
    this.#ignoresOffer = this.isOffering && !this.#options.isPolite
    if (this.#ignoresOffer) return
    if (this.isOffering) this.#withdrawOffer()
    this.#theirs = []
    if (!(await this.#describeRemote('offer', sdp))) return
    try {
      await this.#options.connection.setLocalDescription()
      this.#isWithdrawing = false
      if (!this.#isOver) this.#describe('answer')
    } catch {
      this.end('failed', true)
    }
  }

  async #processAnswer(sdp: string): Promise<void> {
    // The answer was sent twice, because the server's reply to it got lost.
    if (sdp === this.#theirSdp) return
    switch (this.#options.connection.signalingState) {
      case 'have-local-offer':
        break
      case 'closed':
        this.end('failed', true)
        return
      case 'stable':
      case 'have-remote-offer':
      case 'have-local-pranswer':
      case 'have-remote-pranswer':
        this.#reportMisbehaviour()
        return
    }
    await this.#describeRemote('answer', sdp)
  }

  /** Returns whether the browser accepted the description. */
  async #describeRemote(type: 'offer' | 'answer', sdp: string): Promise<boolean> {
    try {
      this.#theirSdp = sdp
      this.#theirFirstAt ??= this.#options.clock.now()
      await this.#options.connection.setRemoteDescription({ type, sdp })
      return !this.#isOver
    } catch (error) {
      if (this.#isOver) return false
      // The connection may have failed or closed already. Then the description is not at fault.
      if (isOfState(error) || this.#options.connection.signalingState === 'closed') this.end('failed', true)
      else this.#reportMisbehaviour()
      return false
    }
  }

  async #processCandidate(candidate: Candidate): Promise<void> {
    if (this.#isOver) return
    if (++this.#candidatesReceived > CANDIDATES_MAX * OFFERS_MAX) {
      this.#reportMisbehaviour()
      return
    }
    if (this.#theirs.length < CANDIDATES_MAX) this.#theirs.push(candidate)
    try {
      await this.#options.connection.addIceCandidate(candidate)
    } catch {
      if (this.#isOver || this.#ignoresOffer || this.#options.connection.signalingState === 'closed') return
      if (++this.#refusedCandidates > REFUSED_CANDIDATES_MAX) this.#reportMisbehaviour()
    }
  }

  #queueCandidate(candidate: RTCIceCandidate | null): void {
    // The last candidate is empty. It only marks the end.
    if (candidate === null || candidate.candidate === '' || this.#isOver || this.#isWithdrawing) return
    if (++this.#candidatesSent > CANDIDATES_MAX) return
    const { sdpMid, sdpMLineIndex } = candidate
    const found = { candidate: candidate.candidate, sdpMid, sdpMLineIndex }
    this.#ourFirstAt ??= this.#options.clock.now()
    this.#ours.push(found)
    this.#unsentCandidates.push(found)
    this.#stopCandidateTimer ??= this.#options.clock.after(CANDIDATES_PAUSE, () => {
      this.#stopCandidateTimer = null
      while (this.#unsentCandidates.length > 0) {
        const candidates = this.#unsentCandidates.splice(0, CANDIDATES_PER_SIGNAL_MAX)
        this.#options.send({ kind: 'candidates', call: this.call, candidates })
      }
    })
  }

  #handleConnectionState(): void {
    switch (this.#options.connection.connectionState) {
      case 'connected':
        this.path.setConnected(true)
        if (!this.path.isSilent) this.#stopTimeout()
        return
      case 'disconnected':
        this.path.setConnected(false)
        this.#startTimeout()
        this.#options.emit({ kind: 'quiet' })
        // The browser waits ten more seconds before it calls the connection failed.
        if (this.#offersMade < OFFERS_MAX - OFFERS_KEPT) this.#restart()
        return
      case 'failed':
        this.path.setConnected(false)
        this.#startTimeout()
        this.#restart()
        return
      case 'closed':
        this.end('over', false)
        return
      case 'new':
      case 'connecting':
        return
    }
  }

  /** The caller restarts ICE on the same connection, with new candidates. */
  #restart(): void {
    // A pending offer restarts ICE already. Of two answers, the second would match no offer.
    if (!this.#options.isCaller || this.#isOver || this.isOffering) return
    this.#candidatesSent = 0
    this.#ours = []
    this.#options.connection.restartIce()
    void this.#offer()
  }

  /** Ends the call if the connection does not come up or back in time. */
  #startTimeout(): void {
    this.#cancelTimeout ??= this.#options.clock.after(CONNECT_MAX, () => this.end('failed', true))
  }

  #stopTimeout(): void {
    this.#cancelTimeout?.()
    this.#cancelTimeout = null
  }
}

/** Whether the browser rejected the call because of its state, not because of the arguments. */
function isOfState(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'InvalidStateError'
}
