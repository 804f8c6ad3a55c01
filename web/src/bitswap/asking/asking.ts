import type { Cid } from '../../content/index.ts'
import { Dice } from '../dice.ts'
import type { ExchangeLimits } from '../limits.ts'
import type { WantEntry } from '../message.ts'
import type { Misbehaviour, Want } from '../output.ts'
import { PeerMap, type PeerId } from '../peer.ts'
import { earliest, multiplyDivide, since, type Nanos } from '../time.ts'
import type { Totals } from '../totals.ts'
import { ones } from './bits.ts'
import { History } from './history.ts'
import { fill, handleTick, hurry } from './ours.ts'
import { Pace } from './pace.ts'
import { Searches } from './searches.ts'
import { Speech } from './speech.ts'
import { View, type Ask, type Heard } from './view.ts'
import { Wants } from './wants.ts'

/** Blocks that each peer may send before one that sends nothing is held to be stalled. */
const BLOCKS_BEFORE_STALLED = 16
/** Blocks that all peers together are asked for at least. */
const BLOCKS_ASKED_MIN = 16
/** Blocks that peers are asked for who never sent anything of use, a block each. */
export const NEWCOMERS_ASKED_MAX = 8
/** Blocks that were wanted and are remembered. */
const WANTED_BEFORE_MAX = 16 * 1024

/** What a block that came turned out to be. */
export type Arrival = 'wanted' | 'duplicate' | 'unasked'

/** The half of a node that wants blocks: what is wanted, what each peer said about it, and who is asked. */
export class Asking {
  readonly limits: ExchangeLimits
  readonly totals: Totals
  readonly wants = new Wants()
  readonly views = new PeerMap<View>()
  readonly searches = new Searches()
  readonly dice: Dice
  /** Peers that may be asked for more; and those among them that never sent anything of use. */
  readonly hungry = new Set<PeerId>()
  readonly newcomers = new Set<PeerId>()
  /** Blocks that newcomers are asked for. */
  newcomersAsked = 0
  /** Wants that are asked of somebody, and somebody else has said to have since. */
  spread: number[] = []
  /** Pieces of blocks that came, from whomever. */
  pieces = 0
  /** Peers to whom something is to be told. */
  readonly touched = new Set<PeerId>()
  askedBytes = 0
  /** Blocks that were wanted since the last time nothing was. */
  wantedTotal = 0
  hedges = 0
  tailAt: Nanos | null = null
  /** How fast all peers together deliver. */
  readonly #pace: Pace
  /** Since when something is wanted, and how many bytes had come by then. */
  #began: { at: Nanos; delivered: number } = { at: 0, delivered: 0 }
  lastBlockAt: Nanos = 0
  readonly #history = new History(WANTED_BEFORE_MAX)
  readonly #speech: Speech
  /** Not later than the first peer is held to be silent or asked again. */
  #silenceAt: Nanos | null = null

  constructor(limits: ExchangeLimits, seed: bigint, totals: Totals) {
    this.limits = limits
    this.totals = totals
    this.dice = new Dice(seed)
    this.#pace = new Pace(limits, BLOCKS_ASKED_MIN)
    this.#speech = new Speech(limits, this.wants)
  }

  connected(now: Nanos, peer: PeerId, isProvider: boolean): void {
    const isPromised = this.searches.isPromised(peer)
    this.views.set(peer, new View(now, this.limits, isProvider || isPromised))
    this.isHungry(peer)
    this.touched.add(peer)
  }

  disconnected(peer: PeerId): void {
    const view = this.views.get(peer)
    if (view === undefined) return
    this.views.delete(peer)
    this.hungry.delete(peer)
    this.newcomers.delete(peer)
    this.touched.delete(peer)
    for (const at of view.has.numbers()) this.wants.get(at).holders--
    for (const [at, ask] of view.asked) {
      this.#settleAsk(ask)
      this.#noLongerAskedOf(at, peer)
    }
    if (this.views.size === 0) this.#silenceAt = null
  }

  want(now: Nanos, want: Want): void {
    if (!this.wants.add(want).isNew) return
    if (this.wantedTotal++ === 0) {
      this.#began = { at: now, delivered: this.#pace.delivered }
      this.lastBlockAt = now
    }
    this.searches.wanted(now)
    this.allAreHungry()
    for (const [peer, view] of this.views) {
      this.touched.add(peer)
      view.isUrgent = true
    }
  }

  unwant(cid: Cid): void {
    const at = this.wants.findExactly(cid)
    if (at !== null) this.#forget(at, null)
  }

  /** These are asked first, instead of those named before. */
  urgent(now: Nanos, cids: readonly Cid[]): void {
    this.wants.setUrgent(cids)
    hurry(this, now)
    this.allAreHungry()
  }

  /** Something of a peer came. Whether it had been silent. */
  heard(now: Nanos, peer: PeerId, what: Heard): boolean {
    if (what !== 'words') this.pieces++
    const view = this.views.get(peer)
    if (view === undefined) return false
    const wasSilent = view.silentUntil !== null
    view.heard(now, what, this.pieces)
    if (wasSilent) {
      this.#silenceAt = earliest(this.#silenceAt, view.silenceAt())
      this.isHungry(peer)
    }
    return wasSilent
  }

  /** The peer said whether it has a block. Of blocks that nobody wants nothing is remembered. */
  presence(now: Nanos, peer: PeerId, cid: Cid, isHere: boolean): void {
    const view = this.views.get(peer)
    const at = this.wants.findExactly(cid)
    if (view === undefined || at === null) return
    const ask = view.asked.get(at)
    if (ask !== undefined) view.pace.answered(since(now, ask.at))
    if (isHere) {
      // It forgets a want-have that it answered.
      view.told.remove(at)
      view.lacks.remove(at)
      if (view.has.insert(at)) {
        this.wants.get(at).holders++
        if (!this.wants.isOpen(at)) this.spread.push(at)
        this.isHungry(peer)
      }
      return
    }
    view.lacks.insert(at)
    if (view.hope !== 'full') view.hope = 'none'
    if (view.has.remove(at)) {
      this.wants.get(at).holders--
    }
    this.isHungry(peer)
    if (this.takeBack(at, peer)) this.allAreHungry()
    if (this.wants.get(at).holders === 0 && this.#allLack(at)) this.searches.isLackedByAll(now)
  }

  /** A block came. */
  block(now: Nanos, peer: PeerId, cid: Cid, bytes: number): Arrival {
    const view = this.views.get(peer)
    if (view === undefined) return 'unasked'
    const at = this.wants.find(cid)
    if (at === null) {
      if (view.late.take(cid)) return 'duplicate'
      const wasWanted = this.#history.has(cid)
      if (wasWanted && view.questionsTakenBack > 0) view.questionsTakenBack--
      else view.unasked++
      return wasWanted ? 'duplicate' : 'unasked'
    }
    view.useful++
    // What was asked for before, and taken back, may have been under way since.
    const wasLate = view.late.has(cid)
    if (wasLate) view.pace.beganBy(view.deliveredAt)
    view.deliveredAt = this.lastBlockAt = now
    view.silences = 0
    view.bytesIn += bytes
    const ask = view.asked.get(at)
    if (ask !== undefined && !wasLate) view.pace.answered(since(now, ask.at))
    view.pace.delivers(now, bytes, this.limits)
    // It may be told of what did not fit into what it was sure to remember.
    if (view.told.size === 0) this.touched.add(peer)
    this.#pace.follows(view.pace)
    this.#pace.delivers(now, bytes, this.limits)
    this.isHungry(peer)
    this.#forget(at, peer)
    this.searches.arrived(now)
    return 'wanted'
  }

  /** How a peer that sent what nobody asked it for is to be taken. */
  misbehaviour(peer: PeerId): Misbehaviour | null {
    const view = this.views.get(peer)
    return view !== undefined && view.unasked > this.limits.unaskedMax + view.useful ? 'flooded' : null
  }

  /** It sent bytes of no name that anybody was ever asked for, so many more. An honest peer has no reason to. */
  sentStrangeBlocks(peer: PeerId, blocks: number): Misbehaviour | null {
    const view = this.views.get(peer)
    if (view === undefined) return null
    view.strange += blocks
    return view.strange > this.limits.liesMax && view.wasAsked ? 'lied' : null
  }

  providers(now: Nanos, peers: readonly PeerId[]): void {
    this.searches.ended(now, peers, this.limits)
    // Answers get lost with what carries them: whoever owes one is asked again.
    for (const [peer, view] of this.views) if (view.forgetUnanswered()) this.touched.add(peer)
    for (const peer of peers) {
      const view = this.views.get(peer)
      if (view === undefined) continue
      view.hope = 'full'
      this.isHungry(peer)
    }
  }

  /** A block that providers are to be looked for. */
  search(now: Nanos): Cid | null {
    return this.searches.due(now, () => {
      for (const at of this.wants.live.numbers()) {
        const { holders, cid } = this.wants.get(at)
        if (holders === 0 && this.wants.isOpen(at)) return cid
      }
      return null
    })
  }

  /** Peers that claimed to have what they were asked for, and have been silent for too long. */
  stalled(now: Nanos): PeerId[] {
    // Where our own link needs longer for a few blocks of each, nobody is to blame before.
    const turns = this.#takes(BLOCKS_BEFORE_STALLED * this.views.size)
    const { live } = this.wants
    const stalled: PeerId[] = []
    for (const [peer, view] of this.views) {
      if (view.owesSince === null) continue
      const has = ones(Math.min(live.words, view.has.words), (at) => live.half(at) & view.has.half(at))
      if (has.next().done === true) view.owesSince = null
      else if (view.owesSince + this.limits.stalledAfter > now) continue
      else if (since(now, view.heardAt) < turns) view.owesSince = now
      else stalled.push(peer)
    }
    return stalled
  }

  /**
   * How long so many blocks take at the rate since something is wanted. Of late it may have been far higher: blocks of
   * several peers end together.
   */
  #takes(blocks: number): Nanos {
    const { at, delivered } = this.#began
    const bytes = this.#pace.delivered - delivered
    return bytes === 0 ? 0 : multiplyDivide(this.#pace.bytes(blocks), since(this.lastBlockAt, at), bytes)
  }

  /** Chooses whom to ask. */
  fill(now: Nanos): void {
    fill(this, now)
  }

  handleTick(now: Nanos): void {
    handleTick(this, now)
    this.#silenceAt = null
    for (const view of this.views.values()) this.#silenceAt = earliest(this.#silenceAt, view.silenceAt())
  }

  nextWake(): Nanos | null {
    return earliest(this.tailAt, this.#silenceAt, this.searches.nextWake())
  }

  /** Whether something to be told to a peer cannot wait. */
  isUrgent(peer: PeerId): boolean {
    return this.views.get(peer)?.isUrgent === true
  }

  /** What is to be told to a peer next; whether there is more. */
  speak(peer: PeerId, roomBytes: number): { wants: WantEntry[]; isMore: boolean } {
    const view = this.views.get(peer)
    return view === undefined ? { wants: [], isMore: false } : this.#speech.speak(view, roomBytes)
  }

  /** A peer is asked for a block. */
  ask(now: Nanos, at: number, peer: PeerId): void {
    const view = this.views.get(peer)
    if (view === undefined) return
    const bytes = this.bytesOf(at)
    const ask = view.ask(now, at, bytes)
    this.#silenceAt = earliest(this.#silenceAt, view.silenceAt())
    ask.counts = !view.isNewcomer
    if (this.askedBytes === 0 && this.newcomersAsked === 0) this.#pace.begin(now)
    if (ask.counts) this.askedBytes += bytes
    else this.newcomersAsked++
    this.wants.close(at)
    this.wants.get(at).askedOf.push(peer)
    this.touched.add(peer)
  }

  /** A peer is not asked any more, and told so; whether it was. */
  takeBack(at: number, peer: PeerId): boolean {
    const view = this.views.get(peer)
    const ask = view?.unask(at) ?? null
    if (view === undefined || ask === null) return false
    if (ask.isSpoken) {
      const { cid } = this.wants.get(at)
      view.cancels.push(cid)
      view.heldBack.insert(at)
      view.late.add(cid)
      view.isUrgent = true
      this.touched.add(peer)
    }
    this.#settleAsk(ask)
    this.#noLongerAskedOf(at, peer)
    return true
  }

  /**
   * A peer is asked once more for what it is asked for already: the want, or its answer, may be lost. Who still has it
   * before it takes it for the same.
   */
  askAgain(at: number, peer: PeerId): void {
    if (this.views.get(peer)?.askAgain(at) === true) this.touched.add(peer)
  }

  /** What all peers together are to be asked for at a time. */
  get windowBytes(): number {
    return this.#pace.window
  }

  /** About what a block weighs. */
  get blockBytes(): number {
    return this.#pace.bytes(1)
  }

  /** While so many bytes are asked for, there is enough to wait for. */
  get enoughBytes(): number {
    return Math.floor(Math.min(this.#pace.window, this.limits.askedBytesMax) / 2)
  }

  bytesOf(at: number): number {
    return this.wants.get(at).length ?? this.limits.blockBytesGuess
  }

  /** A peer may be asked for more. */
  isHungry(peer: PeerId): void {
    const view = this.views.get(peer)
    if (view === undefined) return
    if (view.isNewcomer) this.newcomers.add(peer)
    else this.hungry.add(peer)
  }

  allAreHungry(): void {
    for (const peer of this.views.keys()) this.isHungry(peer)
  }

  /** Whether anybody is known to have anything of what is wanted. */
  get isAnythingAvailable(): boolean {
    for (const view of this.views.values()) {
      if (view.has.size > 0) return true
      if (view.hope === 'full' && view.lacks.size < this.wants.size) return true
    }
    return false
  }

  #allLack(at: number): boolean {
    for (const view of this.views.values()) if (!view.lacks.has(at)) return false
    return true
  }

  #noLongerAskedOf(at: number, peer: PeerId): void {
    const wanted = this.wants.get(at)
    wanted.askedOf = wanted.askedOf.filter((other) => other !== peer)
    if (wanted.askedOf.length > 0) return
    this.wants.reopen(at)
    this.allAreHungry()
  }

  /**
   * A want is gone, because it arrived `from` a peer or is not wanted any more. Everyone who was told of it is told so.
   */
  #forget(at: number, from: PeerId | null): void {
    const { cid } = this.wants.remove(at)
    for (const [peer, view] of this.views) {
      view.has.remove(at)
      view.lacks.remove(at)
      view.heldBack.remove(at)
      const wasTold = view.told.remove(at)
      const ask = view.unask(at)
      if (ask !== null) {
        this.#settleAsk(ask)
        this.isHungry(peer)
      }
      if (from === peer) continue
      const wasAsked = ask?.isSpoken === true
      if (!wasTold && !wasAsked) continue
      view.cancels.push(cid)
      if (wasAsked) view.late.add(cid)
      else view.questionsTakenBack++
      view.isUrgent ||= wasAsked
      this.touched.add(peer)
    }
    this.#history.add(cid)
    if (this.wants.size === 0) this.wantedTotal = this.hedges = 0
  }

  /** A block is not asked of a peer any more. */
  #settleAsk(ask: Ask): void {
    if (ask.counts) this.askedBytes -= ask.bytes
    else this.newcomersAsked--
  }
}
