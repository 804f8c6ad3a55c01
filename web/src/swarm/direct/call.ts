import type { Clock, Millis } from '../api.ts'
import type { Line } from './line.ts'
import { DirectPath } from './path.ts'
import type { Segment } from '../segment.ts'
import type { Candidate, HangUpReason, Signal } from './signal.ts'

/** How long a line may take to come up, and to come back after a break. */
const CONNECT_MAX: Millis = 15_000
/** Candidates are found in bursts: they wait this long for others to travel with. */
const CANDIDATES_PAUSE: Millis = 50
const CANDIDATES_TOLD_MAX = 16
/** Candidates that one side may tell in one call; of our own, further ones are not told. */
const CANDIDATES_MAX = 64
/** Candidates that the browser may refuse before we take it for ill will: a few cross a restart. */
const REFUSED_CANDIDATES_MAX = 8
/** Offers of one call: the first, and restarts. Who makes them begins another call rather than make more. */
const OFFERS_MAX = 6

/** What a call has seen so far, by which it can be told why nothing came of it. */
export interface Evidence {
  /** Whether the other side said anything. */
  readonly isHeard: boolean
  /** Whether there was a way for a time. */
  readonly wasUp: boolean
  /** Addresses that either side told. */
  readonly ours: number
  readonly theirs: number
}

export interface CallEvents {
  readonly say: (signal: Signal) => void
  readonly up: () => void
  readonly down: () => void
  readonly segment: (segment: Segment) => void
  /** It is over; the line has been given back. */
  readonly over: (why: HangUpReason) => void
  /** The other side said what makes no sense, on the line or about it. */
  readonly misbehaved: () => void
}

export interface CallOptions {
  readonly call: number
  readonly line: Line
  readonly giveBack: (line: Line) => void
  /** Whether our offer gives way when both make one at once. */
  readonly isPolite: boolean
  /** Whether we began: then it is ours to mend the line when it breaks. */
  readonly isCaller: boolean
  readonly clock: Clock
  readonly events: CallEvents
}

/**
 * One attempt of two peers to reach each other: perfect negotiation, as the specification of WebRTC calls it. Both sides
 * may offer at any time; when they do so at once, the polite one takes its offer back.
 */
export class Call {
  /** The number of the attempt. The polite side takes over the other's when both have begun one. */
  call: number
  readonly path: DirectPath
  readonly #line: Line
  readonly #giveBack: (line: Line) => void
  readonly #isPolite: boolean
  #isCaller: boolean
  readonly #clock: Clock
  readonly #events: CallEvents
  #isOver = false
  #isOffering = false
  /** Our own offer is being taken back, and what is found for it is of no use to anybody. */
  #isYielding = false
  /** An offer of the other side's was passed over, and so are the candidates that belong to it. */
  #ignoresOffer = false
  #offersMade = 0
  #offersHeard = 0
  #candidatesHeard = 0
  #isHeard = false
  #theirSdp = ''
  #wasUp = false
  #refusedCandidates = 0
  #candidatesTold = 0
  #untold: Candidate[] = []
  #stopTelling: (() => void) | null = null
  #stopWaiting: (() => void) | null = null
  /** Signals are heard one after the other, though each takes its time. */
  #hearing: Promise<void> = Promise.resolve()

  constructor({ call, line, giveBack, isPolite, isCaller, clock, events }: CallOptions) {
    this.call = call
    this.#line = line
    this.#giveBack = giveBack
    this.#isPolite = isPolite
    this.#isCaller = isCaller
    this.#clock = clock
    this.#events = events
    // Agreed beforehand, so that neither side has to announce it to the other.
    const channel = line.createDataChannel('watchfire', { negotiated: true, id: 0 })
    this.path = new DirectPath(channel, clock, {
      up: () => {
        this.#wasUp = true
        this.#stopAwaiting()
        events.up()
      },
      down: events.down,
      segment: events.segment,
      malformed: events.misbehaved,
      silent: () => this.#await(),
      broken: () => this.end('failed', true),
    })
    line.addEventListener('connectionstatechange', () => this.#followLine())
    line.addEventListener('icecandidate', (event) => this.#tell((event as RTCPeerConnectionIceEvent).candidate))
    channel.addEventListener('close', () => this.end(this.#wasUp ? 'over' : 'failed', false))
    this.#await()
  }

  /** Since when nothing moved; `null` while something is on its way, or the line is only coming up. */
  idleSince(): Millis | null {
    return this.path.isUp && !this.path.isBusy ? this.path.movedAt : null
  }

  get evidence(): Evidence {
    const [ours, theirs] = [this.#line.localDescription?.sdp ?? '', this.#theirSdp].map(candidatesIn)
    return {
      isHeard: this.#isHeard,
      wasUp: this.#wasUp,
      ours: this.#candidatesTold + (ours ?? 0),
      theirs: this.#candidatesHeard + (theirs ?? 0),
    }
  }

  /** Whether an offer of ours waits for its answer. */
  get isOffering(): boolean {
    return this.#isOffering || this.#line.signalingState === 'have-local-offer'
  }

  /** Begins. */
  offer(): void {
    void this.#offer()
  }

  hear(signal: Signal): void {
    this.#hearing = this.#hearing.then(() => this.#hear(signal))
  }

  /**
   * Both have begun, and it is ours to give way: from now on this is the other side's call. At once, so that candidates
   * directly behind its offer are known to be of it.
   */
  goOverTo(offer: Signal): void {
    this.call = offer.call
    this.#isCaller = false
    this.#yield()
    this.hear(offer)
  }

  /** Ends it; `tells` the other side so. */
  end(reason: HangUpReason, tells: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#stopTelling?.()
    this.#stopWaiting?.()
    if (tells) this.#events.say({ kind: 'hang_up', call: this.call, reason })
    this.path.close()
    this.#giveBack(this.#line)
    this.#events.over(reason)
  }

  async #offer(): Promise<void> {
    if (++this.#offersMade > OFFERS_MAX) {
      this.end('failed', true)
      return
    }
    this.#isOffering = true
    try {
      await this.#line.setLocalDescription()
      if (!this.#isOver && !this.#isYielding) this.#describe('offer')
    } catch {
      this.end('failed', true)
    } finally {
      this.#isOffering = false
    }
  }

  #describe(kind: 'offer' | 'answer'): void {
    const sdp = this.#line.localDescription?.sdp
    if (sdp !== undefined) this.#events.say({ kind, call: this.call, sdp })
  }

  async #hear(signal: Signal): Promise<void> {
    if (this.#isOver) return
    if (signal.kind !== 'hang_up') this.#isHeard = true
    switch (signal.kind) {
      case 'offer':
        await this.#hearOffer(signal.sdp)
        return
      case 'answer':
        await this.#hearAnswer(signal.sdp)
        return
      case 'candidates':
        for (const candidate of signal.candidates) await this.#hearCandidate(candidate)
        return
      case 'hang_up':
        this.end(signal.reason, false)
        return
    }
  }

  #yield(): void {
    this.#isYielding = true
    this.#untold = []
    this.#candidatesTold = 0
  }

  async #hearOffer(sdp: string): Promise<void> {
    if (++this.#offersHeard > OFFERS_MAX) {
      this.#events.misbehaved()
      return
    }
    this.#ignoresOffer = this.isOffering && !this.#isPolite
    if (this.#ignoresOffer) return
    if (this.isOffering) this.#yield()
    if (!(await this.#describeRemote('offer', sdp))) return
    try {
      await this.#line.setLocalDescription()
      this.#isYielding = false
      if (!this.#isOver) this.#describe('answer')
    } catch {
      this.end('failed', true)
    }
  }

  async #hearAnswer(sdp: string): Promise<void> {
    // Said twice, when the server's word that it was passed on got lost.
    if (sdp === this.#theirSdp) return
    switch (this.#line.signalingState) {
      case 'have-local-offer':
        break
      case 'closed':
        this.end('failed', true)
        return
      case 'stable':
      case 'have-remote-offer':
      case 'have-local-pranswer':
      case 'have-remote-pranswer':
        this.#events.misbehaved()
        return
    }
    await this.#describeRemote('answer', sdp)
  }

  /** Whether the browser could make something of it. */
  async #describeRemote(type: 'offer' | 'answer', sdp: string): Promise<boolean> {
    try {
      this.#theirSdp = sdp
      await this.#line.setRemoteDescription({ type, sdp })
      return !this.#isOver
    } catch (error) {
      if (this.#isOver) return false
      // The line may have failed or closed without having told us yet: no fault of who described its own end of it.
      if (isOfState(error) || this.#line.signalingState === 'closed') this.end('failed', true)
      else this.#events.misbehaved()
      return false
    }
  }

  async #hearCandidate(candidate: Candidate): Promise<void> {
    if (this.#isOver) return
    if (++this.#candidatesHeard > CANDIDATES_MAX * OFFERS_MAX) {
      this.#events.misbehaved()
      return
    }
    try {
      await this.#line.addIceCandidate(candidate)
    } catch {
      if (this.#isOver || this.#ignoresOffer || this.#line.signalingState === 'closed') return
      if (++this.#refusedCandidates > REFUSED_CANDIDATES_MAX) this.#events.misbehaved()
    }
  }

  #tell(candidate: RTCIceCandidate | null): void {
    // The last of all is empty, and says no more than that.
    if (candidate === null || candidate.candidate === '' || this.#isOver || this.#isYielding) return
    if (++this.#candidatesTold > CANDIDATES_MAX) return
    const { sdpMid, sdpMLineIndex } = candidate
    this.#untold.push({ candidate: candidate.candidate, sdpMid, sdpMLineIndex })
    this.#stopTelling ??= this.#clock.after(CANDIDATES_PAUSE, () => {
      this.#stopTelling = null
      while (this.#untold.length > 0) {
        const candidates = this.#untold.splice(0, CANDIDATES_TOLD_MAX)
        this.#events.say({ kind: 'candidates', call: this.call, candidates })
      }
    })
  }

  #followLine(): void {
    switch (this.#line.connectionState) {
      case 'connected':
        this.path.setLinked(true)
        if (!this.path.isSilent) this.#stopAwaiting()
        return
      case 'disconnected':
        this.path.setLinked(false)
        this.#await()
        return
      case 'failed':
        this.path.setLinked(false)
        this.#await()
        this.#mend()
        return
      case 'closed':
        this.end('over', false)
        return
      case 'new':
      case 'connecting':
        return
    }
  }

  /** The caller looks for another way over the same line, new addresses among them. */
  #mend(): void {
    // An offer that waits for its answer looks for one already; of two, the second answer would be to none.
    if (!this.#isCaller || this.#isOver || this.isOffering) return
    this.#candidatesTold = 0
    this.#line.restartIce()
    void this.#offer()
  }

  /** A line that does not come up, or not back, is given up. */
  #await(): void {
    this.#stopWaiting ??= this.#clock.after(CONNECT_MAX, () => this.end('failed', true))
  }

  #stopAwaiting(): void {
    this.#stopWaiting?.()
    this.#stopWaiting = null
  }
}

/** Whether the browser refused for the state it is in, not for what it was given. */
function isOfState(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'InvalidStateError'
}

/** A description may carry addresses itself. */
function candidatesIn(sdp: string): number {
  return sdp.split('\na=candidate:').length - 1
}
