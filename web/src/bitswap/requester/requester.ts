import type { Cid } from '../../content/index.ts'
import { Rng } from '../rng.ts'
import type { ExchangeLimits } from '../limits.ts'
import type { WantEntry } from '../message.ts'
import type { Misbehaviour, Want } from '../inputs-outputs.ts'
import { PeerMap, type PeerId } from '../peer.ts'
import { earliest, multiplyDivide, since, type Nanos } from '../time.ts'
import type { Totals } from '../totals.ts'
import { setBits } from './bits.ts'
import { RecentCids } from './recent-cids.ts'
import { Throughput } from './throughput.ts'
import { Searches } from './searches.ts'
import { WantWriter } from './want-writer.ts'
import { PeerState, type Request, type Received } from './peer-state.ts'
import { Wants } from './wants.ts'

/** Blocks that each peer may send before a silent peer counts as stalled. */
const BLOCKS_BEFORE_STALLED = 16
/** Blocks to request from all peers together at least. */
const BLOCKS_REQUESTED_MIN = 16
/** Requests to unproven peers at most, one block each. */
export const UNPROVEN_REQUESTS_MAX = 8
/** Recently wanted blocks that are remembered. */
const WANTED_BEFORE_MAX = 16 * 1024

/** The result of checking a received block. */
export type Arrival = 'wanted' | 'duplicate' | 'unasked'

/** The part of the exchange that fetches blocks: the wants, what each peer announced, and the requests. */
export class Requester {
  readonly limits: ExchangeLimits
  readonly totals: Totals
  readonly wants = new Wants()
  readonly peers = new PeerMap<PeerState>()
  readonly searches = new Searches()
  readonly rng: Rng
  /** Peers that can take more requests. Unproven peers are in the second set. */
  readonly readyForRequests = new Set<PeerId>()
  readonly unprovenReady = new Set<PeerId>()
  /** Requests to unproven peers. */
  unprovenRequests = 0
  /** Wants that are requested from one peer and were announced by another since. */
  newlyHeldElsewhere: number[] = []
  /** Parts of messages with blocks that arrived, from all peers. */
  messageParts = 0
  /** Peers with wants or cancels to send. */
  readonly peersToNotify = new Set<PeerId>()
  requestedBytes = 0
  /** Blocks wanted since there was last nothing wanted. */
  wantedTotal = 0
  endgameRequests = 0
  endgameAt: Nanos | null = null
  /** The throughput of all peers together. */
  readonly #throughput: Throughput
  /** Since when something is wanted, and how many bytes had arrived at that time. */
  #wantingSince: { at: Nanos; delivered: number } = { at: 0, delivered: 0 }
  lastBlockAt: Nanos = 0
  readonly #recentlyWanted = new RecentCids(WANTED_BEFORE_MAX)
  readonly #writer: WantWriter
  /** Not later than the first timeout or retry of a peer. */
  #nextTimeoutAt: Nanos | null = null

  constructor(limits: ExchangeLimits, seed: bigint, totals: Totals) {
    this.limits = limits
    this.totals = totals
    this.rng = new Rng(seed)
    this.#throughput = new Throughput(limits, BLOCKS_REQUESTED_MIN)
    this.#writer = new WantWriter(limits, this.wants)
  }

  handleConnected(now: Nanos, peer: PeerId, isProvider: boolean): void {
    const isPromised = this.searches.takeAnnounced(peer)
    this.peers.set(peer, new PeerState(now, this.limits, isProvider || isPromised))
    this.noteReadyForRequests(peer)
    this.peersToNotify.add(peer)
  }

  handleDisconnected(peer: PeerId): void {
    const state = this.peers.get(peer)
    if (state === undefined) return
    this.peers.delete(peer)
    this.readyForRequests.delete(peer)
    this.unprovenReady.delete(peer)
    this.peersToNotify.delete(peer)
    for (const at of state.has.numbers()) this.wants.get(at).holders--
    for (const [at, request] of state.requested) {
      this.#releaseRequest(request)
      this.#removeRequestedFrom(at, peer)
    }
    if (this.peers.size === 0) this.#nextTimeoutAt = null
  }

  addWant(now: Nanos, want: Want): void {
    if (!this.wants.add(want).isNew) return
    if (this.wantedTotal++ === 0) {
      this.#wantingSince = { at: now, delivered: this.#throughput.deliveredBytes }
      this.lastBlockAt = now
    }
    this.searches.noteWanted(now)
    this.noteAllReadyForRequests()
    for (const [peer, state] of this.peers) {
      this.peersToNotify.add(peer)
      state.isUrgent = true
    }
  }

  cancelWant(cid: Cid): void {
    const at = this.wants.findExactly(cid)
    if (at !== null) this.#removeWant(at, null)
  }

  /** Something arrived from a peer. Returns whether the peer had timed out. */
  noteReceived(now: Nanos, peer: PeerId, what: Received): boolean {
    if (what !== 'other') this.messageParts++
    const state = this.peers.get(peer)
    if (state === undefined) return false
    const wasSilent = state.timedOutUntil !== null
    state.noteReceived(now, what, this.messageParts)
    if (wasSilent) {
      this.#nextTimeoutAt = earliest(this.#nextTimeoutAt, state.nextTimeoutAt())
      this.noteReadyForRequests(peer)
    }
    return wasSilent
  }

  /** The peer sent HAVE or DONT_HAVE. It is ignored for blocks that are not wanted. */
  handlePresence(now: Nanos, peer: PeerId, cid: Cid, isHere: boolean): void {
    const state = this.peers.get(peer)
    const at = this.wants.findExactly(cid)
    if (state === undefined || at === null) return
    const request = state.requested.get(at)
    if (request !== undefined) state.throughput.noteAnswer(since(now, request.at))
    if (isHere) {
      // A peer forgets a want-have when it has answered it.
      state.sentWantHaves.remove(at)
      state.lacks.remove(at)
      if (state.has.insert(at)) {
        this.wants.get(at).holders++
        if (!this.wants.isOpen(at)) this.newlyHeldElsewhere.push(at)
        this.noteReadyForRequests(peer)
      }
      return
    }
    state.lacks.insert(at)
    if (state.providerHint !== 'full') state.providerHint = 'none'
    if (state.has.remove(at)) {
      this.wants.get(at).holders--
    }
    this.noteReadyForRequests(peer)
    if (this.cancelRequest(at, peer)) this.noteAllReadyForRequests()
    if (this.wants.get(at).holders === 0 && this.#allLack(at)) this.searches.noteLackedByAll(now)
  }

  /** A block arrived. */
  handleBlock(now: Nanos, peer: PeerId, cid: Cid, bytes: number): Arrival {
    const state = this.peers.get(peer)
    if (state === undefined) return 'unasked'
    const at = this.wants.find(cid)
    if (at === null) {
      if (state.lateBlocks.take(cid)) return 'duplicate'
      const wasWanted = this.#recentlyWanted.has(cid)
      if (wasWanted && state.cancelledWantHaves > 0) state.cancelledWantHaves--
      else state.unrequestedBlocks++
      return wasWanted ? 'duplicate' : 'unasked'
    }
    state.usefulBlocks++
    // The cancelled request may have been on its way since the last delivery.
    const wasLate = state.lateBlocks.has(cid)
    if (wasLate) state.throughput.extendSample(state.deliveredAt)
    state.deliveredAt = this.lastBlockAt = now
    state.timeouts = 0
    state.bytesIn += bytes
    const request = state.requested.get(at)
    if (request !== undefined && !wasLate) state.throughput.noteAnswer(since(now, request.at))
    state.throughput.noteDelivery(now, bytes, this.limits)
    // There may be want-haves that did not fit into the peer's wantlist before.
    if (state.sentWantHaves.size === 0) this.peersToNotify.add(peer)
    this.#throughput.followLatency(state.throughput)
    this.#throughput.noteDelivery(now, bytes, this.limits)
    this.noteReadyForRequests(peer)
    this.#removeWant(at, peer)
    this.searches.noteArrived(now)
    return 'wanted'
  }

  /** The misbehaviour of a peer that sent too many blocks that were not requested from it. `null` if there is none. */
  misbehaviourOf(peer: PeerId): Misbehaviour | null {
    const state = this.peers.get(peer)
    return state !== undefined && state.unrequestedBlocks > this.limits.unrequestedBlocksMax + state.usefulBlocks ? 'flooded' : null
  }

  /** Counts blocks that were never wanted. An honest peer never sends any. */
  noteUnsolicitedBlocks(peer: PeerId, blocks: number): Misbehaviour | null {
    const state = this.peers.get(peer)
    if (state === undefined) return null
    state.unsolicitedBlocks += blocks
    return state.unsolicitedBlocks > this.limits.unsolicitedBlocksMax && state.wasEverRequested ? 'forged-blocks' : null
  }

  handleProviders(now: Nanos, peers: readonly PeerId[]): void {
    this.searches.finish(now, peers, this.limits)
    // Answers can get lost. Want-haves without an answer are sent again.
    for (const [peer, state] of this.peers) if (state.forgetUnansweredWantHaves()) this.peersToNotify.add(peer)
    for (const peer of peers) {
      const state = this.peers.get(peer)
      if (state === undefined) continue
      state.providerHint = 'full'
      this.noteReadyForRequests(peer)
    }
  }

  /** Starts a provider search if one is due. Returns a block that no connected peer has. */
  startDueSearch(now: Nanos): Cid | null {
    return this.searches.startIfDue(now, () => {
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
    const turns = this.#expectedTime(BLOCKS_BEFORE_STALLED * this.peers.size)
    const { live } = this.wants
    const stalled: PeerId[] = []
    for (const [peer, state] of this.peers) {
      if (state.stallingSince === null) continue
      const has = setBits(Math.min(live.words, state.has.words), (at) => live.half(at) & state.has.half(at))
      if (has.next().done === true) state.stallingSince = null
      else if (state.stallingSince + this.limits.stalledAfter > now) continue
      else if (since(now, state.receivedAt) < turns) state.stallingSince = now
      else stalled.push(peer)
    }
    return stalled
  }

  /**
   * The time that this many blocks take at the mean rate since something is wanted. The recent rate can be far higher,
   * because the blocks of several peers often end at the same time.
   */
  #expectedTime(blocks: number): Nanos {
    const { at, delivered } = this.#wantingSince
    const bytes = this.#throughput.deliveredBytes - delivered
    return bytes === 0 ? 0 : multiplyDivide(this.#throughput.bytesOf(blocks), since(this.lastBlockAt, at), bytes)
  }

  /** Computes again when the first peer times out. */
  scheduleTimeouts(): void {
    this.#nextTimeoutAt = null
    for (const state of this.peers.values()) this.#nextTimeoutAt = earliest(this.#nextTimeoutAt, state.nextTimeoutAt())
  }

  nextWake(): Nanos | null {
    return earliest(this.endgameAt, this.#nextTimeoutAt, this.searches.nextWake())
  }

  /** Whether the peer has wants or cancels that must be sent without delay. */
  isUrgent(peer: PeerId): boolean {
    return this.peers.get(peer)?.isUrgent === true
  }

  /** Takes the wants for the next message to a peer. `isMore` says whether others are left. */
  takeWants(peer: PeerId, roomBytes: number): { wants: WantEntry[]; isMore: boolean } {
    const state = this.peers.get(peer)
    return state === undefined ? { wants: [], isMore: false } : this.#writer.take(state, roomBytes)
  }

  /** Requests a block from a peer. */
  request(now: Nanos, at: number, peer: PeerId): void {
    const state = this.peers.get(peer)
    if (state === undefined) return
    const bytes = this.bytesOf(at)
    const request = state.request(now, at, bytes)
    this.#nextTimeoutAt = earliest(this.#nextTimeoutAt, state.nextTimeoutAt())
    request.isCounted = !state.isUnproven
    if (this.requestedBytes === 0 && this.unprovenRequests === 0) this.#throughput.startSample(now)
    if (request.isCounted) this.requestedBytes += bytes
    else this.unprovenRequests++
    this.wants.close(at)
    this.wants.get(at).requestedFrom.push(peer)
    this.peersToNotify.add(peer)
  }

  /** Cancels a request. Returns whether there was one. */
  cancelRequest(at: number, peer: PeerId): boolean {
    const state = this.peers.get(peer)
    const request = state?.removeRequest(at) ?? null
    if (state === undefined || request === null) return false
    if (request.isSent) {
      const { cid } = this.wants.get(at)
      state.pendingCancels.push(cid)
      state.deferred.insert(at)
      state.lateBlocks.add(cid)
      state.isUrgent = true
      this.peersToNotify.add(peer)
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
    if (this.peers.get(peer)?.retry(at) === true) this.peersToNotify.add(peer)
  }

  /** Bytes to request from all peers together. */
  get windowBytes(): number {
    return this.#throughput.windowBytes
  }

  /** The estimated length of a block. */
  get blockBytes(): number {
    return this.#throughput.bytesOf(1)
  }

  /** While this many bytes are requested, there is enough on its way. */
  get enoughBytes(): number {
    return Math.floor(Math.min(this.#throughput.windowBytes, this.limits.requestedBytesMax) / 2)
  }

  bytesOf(at: number): number {
    return this.wants.get(at).length ?? this.limits.blockBytesGuess
  }

  /** The peer can take another request. */
  noteReadyForRequests(peer: PeerId): void {
    const state = this.peers.get(peer)
    if (state === undefined) return
    if (state.isUnproven) this.unprovenReady.add(peer)
    else this.readyForRequests.add(peer)
  }

  noteAllReadyForRequests(): void {
    for (const peer of this.peers.keys()) this.noteReadyForRequests(peer)
  }

  /** Whether any peer is known to have a wanted block. */
  get isAnythingAvailable(): boolean {
    for (const state of this.peers.values()) {
      if (state.has.size > 0) return true
      if (state.providerHint === 'full' && state.lacks.size < this.wants.size) return true
    }
    return false
  }

  #allLack(at: number): boolean {
    for (const state of this.peers.values()) if (!state.lacks.has(at)) return false
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
   * Removes a want, because the block arrived from a peer or is no longer wanted (`from` is `null`). Peers that know of
   * the want get a cancel.
   */
  #removeWant(at: number, from: PeerId | null): void {
    const { cid } = this.wants.remove(at)
    for (const [peer, state] of this.peers) {
      state.has.remove(at)
      state.lacks.remove(at)
      state.deferred.remove(at)
      const wasTold = state.sentWantHaves.remove(at)
      const request = state.removeRequest(at)
      if (request !== null) {
        this.#releaseRequest(request)
        this.noteReadyForRequests(peer)
      }
      if (from === peer) continue
      const wasAsked = request?.isSent === true
      if (!wasTold && !wasAsked) continue
      state.pendingCancels.push(cid)
      if (wasAsked) state.lateBlocks.add(cid)
      else state.cancelledWantHaves++
      state.isUrgent ||= wasAsked
      this.peersToNotify.add(peer)
    }
    this.#recentlyWanted.add(cid)
    if (this.wants.size === 0) this.wantedTotal = this.endgameRequests = 0
  }

  /** A block is no longer requested from a peer. */
  #releaseRequest(request: Request): void {
    if (request.isCounted) this.requestedBytes -= request.bytes
    else this.unprovenRequests--
  }
}
