import type { Cid } from '../content/index.ts'
import { Rng } from './rng.ts'
import type { Limits } from './limits.ts'
import type { WantEntry } from './message.ts'
import type { Misbehaviour, Want } from './output.ts'
import { PeerMap, type PeerId } from './peer.ts'
import { earliest, since, type Nanos } from './time.ts'
import type { Totals } from './totals.ts'
import { ones } from './bit-set.ts'
import { RecentCids } from './requester/recent-cids.ts'
import { mayBeAnswered, type BlockRequest } from './requester/peer-requests.ts'
import { Progress } from './requester/progress.ts'
import { ProviderSearch } from './requester/provider-search.ts'
import { WantWriter } from './requester/want-writer.ts'
import { PeerState } from './requester/peer-state.ts'
import type { ReceivedKind } from './requester/silence.ts'
import { Wants } from './requester/wants.ts'

/** Blocks that each peer may send before a silent peer counts as stalled. */
const BLOCKS_BEFORE_STALLED = 16
/** Recently wanted blocks that are remembered. */
const RECENTLY_WANTED_MAX = 16 * 1024

/** The result of checking a received block. */
export type Arrival = 'wanted' | 'duplicate' | 'unsolicited'

/** The part of the exchange that fetches blocks: the wants, what each peer announced, and the requests. */
export class Requester {
  readonly limits: Limits
  readonly totals: Totals
  readonly wants = new Wants()
  readonly peers = new PeerMap<PeerState>()
  readonly searches = new ProviderSearch()
  readonly rng: Rng
  /** Peers that can take more requests. */
  readonly readyForRequests = { proven: new Set<PeerId>(), unproven: new Set<PeerId>() }
  /** Requests to unproven peers. */
  unprovenRequests = 0
  /** Wants that are requested from one peer and were announced by another since. */
  newHolders: number[] = []
  /** Parts of messages with blocks that arrived, from all peers. */
  partsReceived = 0
  /** Peers with wants or cancels to send. */
  readonly peersToUpdate = new Set<PeerId>()
  requestedBytes = 0
  endgameCheckAt: Nanos | null = null
  readonly progress: Progress
  readonly #recentlyWanted = new RecentCids(RECENTLY_WANTED_MAX)
  readonly #writer: WantWriter
  /** Not later than the first timeout or retry of a peer. */
  #nextTimeoutAt: Nanos | null = null

  constructor(limits: Limits, seed: bigint, totals: Totals) {
    this.limits = limits
    this.totals = totals
    this.rng = new Rng(seed)
    this.progress = new Progress(limits)
    this.#writer = new WantWriter(limits, this.wants)
  }

  handleConnected(now: Nanos, peer: PeerId, isProvider: boolean): void {
    const isPromised = this.searches.takeFoundProvider(peer)
    this.peers.set(peer, new PeerState(now, this.limits, isProvider || isPromised))
    this.noteReadyForRequests(peer)
    this.peersToUpdate.add(peer)
  }

  handleDisconnected(peer: PeerId): void {
    const state = this.peers.get(peer)
    if (state === undefined) return
    this.peers.delete(peer)
    this.readyForRequests.proven.delete(peer)
    this.readyForRequests.unproven.delete(peer)
    this.peersToUpdate.delete(peer)
    for (const at of state.blocks.has.numbers()) this.wants.get(at).holders--
    for (const [at, request] of state.requests) {
      this.#releaseRequest(request)
      this.#removeRequestedFrom(at, peer)
    }
    if (this.peers.size === 0) this.#nextTimeoutAt = null
  }

  want(now: Nanos, want: Want): void {
    if (!this.wants.add(want)) return
    if (this.progress.wantedTotal++ === 0) this.progress.start(now)
    this.searches.noteWanted(now)
    this.noteAllReadyForRequests()
    for (const [peer, state] of this.peers) {
      this.peersToUpdate.add(peer)
      state.queue.isUrgent = true
    }
  }

  cancelWant(cid: Cid): void {
    const at = this.wants.findExactly(cid)
    if (at !== null) this.#forgetWant(at, null)
  }

  /** Something arrived from a peer. Returns whether the peer had timed out. */
  noteReceived(now: Nanos, peer: PeerId, kind: ReceivedKind): boolean {
    if (kind !== 'no-blocks') this.partsReceived++
    const state = this.peers.get(peer)
    if (state === undefined) return false
    const wasUnresponsive = state.silence.isUnresponsive
    state.silence.noteReceived(now, kind, state.requests.size > 0, this.partsReceived)
    if (wasUnresponsive) {
      this.#nextTimeoutAt = earliest(this.#nextTimeoutAt, state.nextTimeoutAt())
      this.noteReadyForRequests(peer)
    }
    return wasUnresponsive
  }

  /** The peer sent HAVE or DONT_HAVE. It is ignored for blocks that are not wanted. */
  handlePresence(now: Nanos, peer: PeerId, cid: Cid, hasBlock: boolean): void {
    const state = this.peers.get(peer)
    const at = this.wants.findExactly(cid)
    if (state === undefined || at === null) return
    const request = state.requests.get(at)
    if (request !== undefined) state.delivery.recordLatency(since(now, request.requestedAt))
    if (hasBlock) {
      // A peer forgets a want-have when it has answered it.
      state.queue.sentWantHaves.remove(at)
      state.blocks.lacks.remove(at)
      if (state.blocks.has.insert(at)) {
        this.wants.get(at).holders++
        if (!this.wants.isOpen(at)) this.newHolders.push(at)
        this.noteReadyForRequests(peer)
      }
      return
    }
    state.blocks.lacks.insert(at)
    if (state.blocks.providerHint !== 'likely') state.blocks.providerHint = 'unlikely'
    if (state.blocks.has.remove(at)) {
      this.wants.get(at).holders--
    }
    this.noteReadyForRequests(peer)
    if (this.cancelRequest(at, peer)) this.noteAllReadyForRequests()
    if (this.wants.get(at).holders === 0 && this.#allLack(at)) this.searches.noteLackedByAll(now)
  }

  /** A block arrived. */
  handleBlock(now: Nanos, peer: PeerId, cid: Cid, bytes: number): Arrival {
    const state = this.peers.get(peer)
    if (state === undefined) return 'unsolicited'
    const at = this.wants.find(cid)
    if (at === null) {
      if (state.counts.late.take(cid)) return 'duplicate'
      const wasWanted = this.#recentlyWanted.has(cid)
      if (wasWanted && state.counts.cancelledWantHaves > 0) state.counts.cancelledWantHaves--
      else state.counts.unrequested++
      return wasWanted ? 'duplicate' : 'unsolicited'
    }
    state.counts.useful++
    // The cancelled request may have been on its way since the last delivery.
    const wasLate = state.counts.late.has(cid)
    if (wasLate) state.delivery.extendSampleBack(state.counts.usefulAt)
    state.counts.usefulAt = now
    state.silence.timeouts = 0
    state.counts.usefulBytes += bytes
    const request = state.requests.get(at)
    if (request !== undefined && !wasLate) state.delivery.recordLatency(since(now, request.requestedAt))
    state.delivery.recordBlock(now, bytes, this.limits)
    // There may be want-haves that did not fit into the peer's wantlist before.
    if (state.queue.sentWantHaves.size === 0) this.peersToUpdate.add(peer)
    this.progress.recordBlock(now, bytes, state.delivery, this.limits)
    this.noteReadyForRequests(peer)
    this.#forgetWant(at, peer)
    this.searches.noteArrived(now)
    return 'wanted'
  }

  /** The misbehaviour of a peer that sent too many blocks that were not requested from it. `null` if there is none. */
  misbehaviour(peer: PeerId): Misbehaviour | null {
    const state = this.peers.get(peer)
    return state !== undefined && state.counts.unrequested > this.limits.unrequestedBlocksMax + state.counts.useful ? 'flooded' : null
  }

  /** Counts blocks that were never wanted. An honest peer never sends any. */
  countUnsolicited(peer: PeerId, blocks: number): Misbehaviour | null {
    const state = this.peers.get(peer)
    if (state === undefined) return null
    state.counts.unsolicited += blocks
    return state.counts.unsolicited > this.limits.unsolicitedBlocksMax && state.counts.wasRequested ? 'forged-blocks' : null
  }

  /** Messages reach the peer directly from now on, or over the relay. */
  handlePath(peer: PeerId, isDirect: boolean): void {
    const state = this.peers.get(peer)
    if (state === undefined || state.isDirect === isDirect) return
    state.isDirect = isDirect
    this.noteAllReadyForRequests()
  }

  handleProviders(now: Nanos, peers: readonly PeerId[]): void {
    this.searches.handleResult(now, peers, this.limits)
    // Answers can get lost. Want-haves without an answer are sent again.
    for (const [peer, state] of this.peers) if (state.forgetUnansweredWantHaves()) this.peersToUpdate.add(peer)
    for (const peer of peers) {
      const state = this.peers.get(peer)
      if (state === undefined) continue
      state.blocks.providerHint = 'likely'
      this.noteReadyForRequests(peer)
    }
  }

  /** Starts a provider search if one is due. Returns a block that no connected peer has. */
  beginSearch(now: Nanos): Cid | null {
    return this.searches.beginDue(now, () => {
      for (const at of this.wants.live.numbers()) {
        const { holders, cid } = this.wants.get(at)
        if (holders === 0 && this.wants.isOpen(at)) return cid
      }
      return null
    })
  }

  /** Peers that announced requested blocks and have been silent for too long. */
  stalledPeers(now: Nanos): PeerId[] {
    // On a slow link of our own, the blocks of all peers take longer. No peer counts as stalled before that time.
    const turns = this.progress.timeFor(BLOCKS_BEFORE_STALLED * this.peers.size)
    const { live } = this.wants
    const stalled: PeerId[] = []
    for (const [peer, state] of this.peers) {
      if (state.silence.unansweredSince === null) continue
      const has = ones(Math.min(live.words, state.blocks.has.words), (at) => live.half(at) & state.blocks.has.half(at))
      if (has.next().done === true) state.silence.unansweredSince = null
      else if (state.silence.unansweredSince + this.limits.stalledAfter > now) continue
      else if (since(now, state.silence.receivedAt) < turns) state.silence.unansweredSince = now
      else stalled.push(peer)
    }
    return stalled
  }

  /** Computes again when the first peer times out. */
  updateNextTimeout(): void {
    this.#nextTimeoutAt = null
    for (const state of this.peers.values()) this.#nextTimeoutAt = earliest(this.#nextTimeoutAt, state.nextTimeoutAt())
  }

  nextWake(): Nanos | null {
    return earliest(this.endgameCheckAt, this.#nextTimeoutAt, this.searches.nextWake())
  }

  /** Whether the peer has wants or cancels that must be sent without delay. */
  hasUrgent(peer: PeerId): boolean {
    return this.peers.get(peer)?.queue.isUrgent === true
  }

  /** Takes the wants for the next message to a peer. `hasMore` says whether others are left. */
  takeWants(peer: PeerId, roomBytes: number): { wants: WantEntry[]; hasMore: boolean } {
    const state = this.peers.get(peer)
    return state === undefined ? { wants: [], hasMore: false } : this.#writer.takeWants(state, roomBytes)
  }

  /** Requests a block from a peer. */
  request(now: Nanos, at: number, peer: PeerId): void {
    const state = this.peers.get(peer)
    if (state === undefined) return
    const bytes = this.blockBytes(at)
    const request = state.request(now, at, bytes)
    this.#nextTimeoutAt = earliest(this.#nextTimeoutAt, state.nextTimeoutAt())
    request.isCounted = !state.isUnproven
    if (this.requestedBytes === 0 && this.unprovenRequests === 0) this.progress.delivery.startSample(now)
    if (request.isCounted) this.requestedBytes += bytes
    else this.unprovenRequests++
    this.wants.close(at)
    this.wants.get(at).requestedFrom.push(peer)
    this.peersToUpdate.add(peer)
  }

  /** Cancels a request. Returns whether there was one. */
  cancelRequest(at: number, peer: PeerId): boolean {
    const state = this.peers.get(peer)
    const request = state?.removeRequest(at) ?? null
    if (state === undefined || request === null) return false
    if (mayBeAnswered(request)) {
      const { cid } = this.wants.get(at)
      state.queue.cancels.push(cid)
      state.queue.justCancelled.insert(at)
      state.counts.late.add(cid)
      state.queue.isUrgent = true
      this.peersToUpdate.add(peer)
    }
    this.#releaseRequest(request)
    this.#removeRequestedFrom(at, peer)
    return true
  }

  /**
   * Requests a block again from the same peer, because the want or its answer may be lost. A peer that still has the
   * want treats it as the same.
   */
  retry(at: number, peer: PeerId): void {
    const state = this.peers.get(peer)
    if (state?.repeat(at) !== true) return
    state.silence.wasRetried = true
    this.peersToUpdate.add(peer)
  }

  /** Requests a block again from the same peer, because it has become urgent: the peer changes the priority. */
  raise(at: number, peer: PeerId): void {
    const state = this.peers.get(peer)
    if (state?.requests.get(at)?.isUrgent === false && state.repeat(at)) this.peersToUpdate.add(peer)
  }

  /** The only peer a block is requested from, and that request. `null` if there are none or several. */
  soleRequest(at: number): { peer: PeerId; state: PeerState; request: BlockRequest } | null {
    const requestedFrom = this.wants.findAt(at)?.requestedFrom ?? []
    const [peer] = requestedFrom
    if (peer === undefined || requestedFrom.length > 1) return null
    const state = this.peers.get(peer)
    const request = state?.requests.get(at)
    return state === undefined || request === undefined ? null : { peer, state, request }
  }

  /** The length of a wanted block in bytes, estimated if it is unknown. */
  blockBytes(at: number): number {
    return this.wants.get(at).length ?? this.limits.blockBytesEstimate
  }

  /** The peer can take another request. */
  noteReadyForRequests(peer: PeerId): void {
    const state = this.peers.get(peer)
    if (state === undefined) return
    if (state.isUnproven) this.readyForRequests.unproven.add(peer)
    else this.readyForRequests.proven.add(peer)
  }

  noteAllReadyForRequests(): void {
    for (const peer of this.peers.keys()) this.noteReadyForRequests(peer)
  }

  /** Whether any peer is known to have a wanted block. */
  get isAnythingAvailable(): boolean {
    for (const state of this.peers.values()) {
      if (state.blocks.has.size > 0) return true
      if (state.blocks.providerHint === 'likely' && state.blocks.lacks.size < this.wants.size) return true
    }
    return false
  }

  #allLack(at: number): boolean {
    for (const state of this.peers.values()) if (!state.blocks.lacks.has(at)) return false
    return true
  }

  #removeRequestedFrom(at: number, peer: PeerId): void {
    const wanted = this.wants.get(at)
    wanted.requestedFrom = wanted.requestedFrom.filter((other) => other !== peer)
    if (wanted.requestedFrom.length > 0) return
    this.wants.reopen(at)
    this.noteAllReadyForRequests()
  }

  /**
   * Removes a want, because the block arrived from a peer or is no longer wanted (`from` is `null`). Other peers that know of
   * the want get a cancel. The peer itself gets one if it was sent the want twice: it may have the second one still, and would send
   * the block again.
   */
  #forgetWant(at: number, from: PeerId | null): void {
    const { cid } = this.wants.remove(at)
    for (const [peer, state] of this.peers) {
      state.blocks.has.remove(at)
      state.blocks.lacks.remove(at)
      state.queue.justCancelled.remove(at)
      const hadWantHave = state.queue.sentWantHaves.remove(at)
      const request = state.removeRequest(at)
      if (request !== null) {
        this.#releaseRequest(request)
        this.noteReadyForRequests(peer)
      }
      const isSource = from === peer
      const wasSent = request !== null && (isSource ? wasSentTwice(state, request, cid) : mayBeAnswered(request))
      if (!wasSent && (!hadWantHave || isSource)) continue
      state.queue.cancels.push(cid)
      if (wasSent) state.counts.late.add(cid)
      else state.counts.cancelledWantHaves++
      state.queue.isUrgent ||= wasSent
      this.peersToUpdate.add(peer)
    }
    this.#recentlyWanted.add(cid)
    if (this.wants.size === 0) this.progress.finish()
  }

  /** A block is no longer requested from a peer. */
  #releaseRequest(request: BlockRequest): void {
    if (request.isCounted) this.requestedBytes -= request.bytes
    else this.unprovenRequests--
  }
}

/** Whether a peer was sent the want of a request twice: it was repeated, or an earlier request was cancelled. */
function wasSentTwice({ counts }: PeerState, { isSent, isRepeated }: BlockRequest, cid: Cid): boolean {
  return isSent && (isRepeated || counts.late.has(cid))
}
