import type { BlockPresence } from '../bitswap/index.ts'
import type { Cid, CidKey, WantedBlock } from '../content/index.ts'
import type { ExchangeCounts, ExchangeSettings, Have, Millis, PeerId } from './events.ts'
import type { Outbox } from './outbox.ts'

/** What a block is taken to weigh while nobody has told. */
const UNKNOWN_BLOCK_BYTES = 64 << 10
/** Unasked wants looked at for one input; those without anyone to ask go to the back of the queue. */
const LOOKED_AT_MAX = 256
/** Silences in a row after which a peer is asked again for what it owes. */
const REPEATED_AFTER_SILENCES = 3
/** Blocks that may be urgent at once. */
const URGENT_MAX = 64
const PRIORITY_FIRST = 2 ** 31 - 1

interface Want extends WantedBlock {
  asked: Source | null
  askedAt: Millis
}

interface Source {
  readonly id: PeerId
  readonly outbox: Outbox
  have: Have
  /** What it told about the blocks we want. */
  readonly knows: Map<CidKey, boolean>
  /** Wants before this one of all ever were told to it, as far as it cared to know. */
  toldUpTo: number
  /** Wants of ours that its ledger has, as far as we know. */
  readonly told: Map<CidKey, 'block' | 'have'>
  /** Blocks it owes us. */
  readonly asked: Map<CidKey, Want>
  askedBytes: number
  receivedBytes: number
  usefulBlocks: number
  unwantedBlocks: number
  /** Bytes it last said were waiting for their turn with it. */
  pendingBytes: number
  /** When it last sent anything, or was asked after owing nothing. */
  heardAt: Millis
  /** When it last sent a part of a block, or was asked after owing nothing. */
  gaveAt: Millis
  /** Times in a row that patience ran out; anything it sends sets it to none. */
  silences: number
}

/** Whom to ask for what: spreads wants over those who have the blocks, and takes them from who stays silent. */
export class Seeking {
  readonly #settings: ExchangeSettings
  readonly #counts: ExchangeCounts
  /** In [0, 1): where in each run of blocks this seeker begins, so that several hold different ones early. */
  readonly #start: number
  readonly #sources = new Map<PeerId, Source>()
  readonly #wants = new Map<CidKey, Want>()
  /** All that ever was wanted, in order. */
  readonly #everWanted: CidKey[] = []
  /** Wants that nobody is asked for, next first: those that somebody failed, those that lead to others, the rest. */
  readonly #unasked = { again: new Map<CidKey, Want>(), inner: new Map<CidKey, Want>(), leaf: new Map<CidKey, Want>() }
  /** Blocks to ask for before all others, in this order; not all are wanted yet, or still. */
  #urgent: ReadonlySet<CidKey> = new Set()
  #askedBytes = 0
  #priority = PRIORITY_FIRST

  constructor(settings: ExchangeSettings, counts: ExchangeCounts, start: number) {
    this.#settings = settings
    this.#counts = counts
    this.#start = start
  }

  join(peer: PeerId, have: Have, outbox: Outbox): void {
    const none = { toldUpTo: 0, askedBytes: 0, receivedBytes: 0, usefulBlocks: 0, unwantedBlocks: 0, pendingBytes: 0, heardAt: 0, gaveAt: 0, silences: 0 }
    const source = { id: peer, outbox, have, knows: new Map(), told: new Map(), asked: new Map(), ...none }
    this.#sources.set(peer, source)
    this.#tellInterest(source)
  }

  /** What a known peer holds has changed, by the server's word. */
  learnHave(peer: PeerId, have: Have): void {
    const source = this.#sources.get(peer)
    if (source === undefined || source.have === have) return
    source.have = have
    // It may well have by now what it did not have before.
    if (have === 'all') source.knows.clear()
    this.#tellInterest(source)
  }

  leave(peer: PeerId): void {
    const source = this.#sources.get(peer)
    if (source === undefined) return
    this.#sources.delete(peer)
    for (const want of [...source.asked.values()]) this.#putBack(want)
  }

  has(peer: PeerId): boolean {
    return this.#sources.has(peer)
  }

  get blocksInFlight(): number {
    let count = 0
    for (const source of this.#sources.values()) count += source.asked.size
    return count
  }

  get sources(): Iterable<{ readonly id: PeerId; readonly have: Have; readonly receivedBytes: number }> {
    return this.#sources.values()
  }

  isWanted(cid: Cid): boolean {
    return this.#wants.has(cid.key)
  }

  want(blocks: readonly WantedBlock[]): void {
    const from = Math.floor(this.#start * blocks.length)
    for (const block of [...blocks.slice(from), ...blocks.slice(0, from)]) {
      const { key } = block.cid
      if (this.#wants.has(key)) continue
      const want: Want = { ...block, asked: null, askedAt: 0 }
      this.#wants.set(key, want)
      this.#everWanted.push(key)
      this.#unasked[want.rank].set(key, want)
    }
    for (const source of this.#sources.values()) this.#tellInterest(source)
  }

  /** Asks for these before all others, now and when they come to be wanted. */
  urge(cids: readonly Cid[]): void {
    this.#urgent = new Set(cids.slice(0, URGENT_MAX).map(({ key }) => key))
  }

  /** A whole message of a peer's arrived: it is alive. */
  hear(now: Millis, peer: PeerId, pendingBytes: number): void {
    const source = this.#sources.get(peer)
    if (source === undefined) return
    source.heardAt = now
    source.pendingBytes = pendingBytes
    // Words alone do not make up for having given nothing.
    if (now - source.gaveAt < this.#settings.giftPatience) source.silences = 0
  }

  /** A block, or a part of one, arrived. */
  receive(now: Millis, peer: PeerId): void {
    const source = this.#sources.get(peer)
    if (source === undefined) return
    source.heardAt = now
    source.gaveAt = now
    source.silences = 0
  }

  handlePresences(peer: PeerId, presences: readonly BlockPresence[]): void {
    const source = this.#sources.get(peer)
    if (source === undefined) return
    for (const { cid, have } of presences) {
      if (!this.#wants.has(cid.key)) continue
      source.knows.set(cid.key, have)
      if (have) {
        if (source.told.get(cid.key) === 'have') source.told.delete(cid.key)
        continue
      }
      // So it has not everything, whatever the server believes.
      if (source.have === 'all') source.have = 'some'
      const want = source.asked.get(cid.key)
      if (want === undefined) continue
      this.#putBack(want)
      source.told.set(cid.key, 'have')
    }
  }

  /** A wanted block is here, from `peer`: nobody else needs to send it. */
  settle(peer: PeerId, cid: Cid, bytes: number): void {
    const want = this.#wants.get(cid.key)
    if (want === undefined) return
    this.#wants.delete(cid.key)
    this.#unasked.again.delete(cid.key)
    this.#unasked[want.rank].delete(cid.key)
    if (want.asked !== null) this.#takeFrom(want.asked, want)
    for (const source of this.#sources.values()) {
      source.knows.delete(cid.key)
      const told = source.told.get(cid.key)
      source.told.delete(cid.key)
      if (source.id === peer) {
        source.receivedBytes += bytes
        source.usefulBlocks++
      }
      // Who sent it has struck it off already.
      if (told !== undefined && source.id !== peer) source.outbox.want(cancelOf(cid))
    }
  }

  /** Counts a block that nobody asked for; `true` when it was one too many from this peer. */
  countUnwanted(peer: PeerId): boolean {
    this.#counts.unwanted++
    const source = this.#sources.get(peer)
    if (source === undefined) return false
    source.unwantedBlocks++
    return source.unwantedBlocks > this.#settings.unwantedMax + source.usefulBlocks
  }

  /** Whether this peer owes us a block. */
  isAsked(peer: PeerId): boolean {
    return (this.#sources.get(peer)?.asked.size ?? 0) > 0
  }

  /** Notices who stayed silent for too long. */
  handleTick(now: Millis): void {
    for (const source of this.#sources.values()) {
      const deadline = this.#deadline(source)
      if (deadline === null || now < deadline) continue
      source.silences++
      source.heardAt = now
      source.gaveAt = now
      // It may never have got the wants. Not sooner, since a want that crosses its block fetches it twice.
      if (source.silences < REPEATED_AFTER_SILENCES) continue
      for (const want of source.asked.values()) this.#tellWant(source, want)
    }
  }

  /** When to look for silence next; `null` when nobody owes us anything. */
  nextWake(): Millis | null {
    let wake: Millis | null = null
    for (const source of this.#sources.values()) {
      const deadline = this.#deadline(source)
      if (deadline !== null && (wake === null || deadline < wake)) wake = deadline
    }
    return wake
  }

  #deadline(source: Source): Millis | null {
    if (source.asked.size === 0) return null
    const { patience, patienceMax, giftPatience } = this.#settings
    const silence = Math.min(patienceMax, patience * 2 ** Math.min(source.silences, 10))
    return Math.min(source.heardAt + silence, source.gaveAt + Math.max(giftPatience, silence))
  }

  /** Asks for as much as there is room for. */
  ask(now: Millis): void {
    this.#askUrgent(now)
    this.#askUnasked(now, this.#unasked.again)
    this.#askUnasked(now, this.#unasked.inner)
    this.#askUnasked(now, this.#unasked.leaf)
    this.#takeFromSilent(now)
    this.#relieveBusy(now)
    for (const source of this.#sources.values()) this.#tellInterest(source)
  }

  #askUrgent(now: Millis): void {
    for (const key of this.#urgent) {
      const want = this.#wants.get(key)
      if (want === undefined || want.asked !== null) continue
      const source = this.#best(want, null) ?? this.#roomFor(want)
      if (source === null) continue
      for (const rank of ['again', 'inner', 'leaf'] as const) this.#unasked[rank].delete(key)
      this.#ask(now, source, want)
    }
  }

  /** Somebody who has it and owes what is less urgent: the last of that is called off until there is room. */
  #roomFor(want: Want): Source | null {
    for (const source of this.#sources.values()) {
      if (likelihood(source, want) < 2 || source.silences > 0) continue
      for (const other of [...source.asked.values()].reverse()) {
        if (this.#hasRoom(source, want)) break
        if (this.#urgent.has(other.cid.key)) continue
        this.#putBack(other)
        source.told.delete(other.cid.key)
        source.outbox.want(cancelOf(other.cid))
      }
      if (this.#hasRoom(source, want)) return source
    }
    return null
  }

  #askUnasked(now: Millis, unasked: Map<CidKey, Want>): void {
    let looks = Math.min(LOOKED_AT_MAX, unasked.size)
    for (const [key, want] of unasked) {
      if (looks-- <= 0 || this.#askedBytes >= this.#settings.bytesInFlightTotalMax) return
      if (![...this.#sources.values()].some((source) => this.#hasRoom(source, want))) return
      unasked.delete(key)
      const source = this.#best(want, null)
      if (source === null) this.#unasked[want.rank].set(key, want)
      else this.#ask(now, source, want)
    }
  }

  #takeFromSilent(now: Millis): void {
    for (const silent of this.#sources.values()) {
      if (silent.silences === 0) continue
      for (const want of silent.asked.values()) {
        // One asked only lately is a question whether it still sleeps.
        if (now - want.askedAt < this.#settings.patience) continue
        const other = this.#best(want, silent)
        if (other === null || other.silences > 0) continue
        this.#counts.silences++
        this.#takeFrom(silent, want)
        silent.told.delete(want.cid.key)
        silent.outbox.want(cancelOf(want.cid))
        this.#ask(now, other, want)
      }
    }
  }

  /** Lets who owes nothing take over the last of what waits its turn with another. */
  #relieveBusy(now: Millis): void {
    for (const idle of this.#sources.values()) {
      if (idle.asked.size > 0 || idle.silences > 0) continue
      const busy = this.#busiest()
      if (busy === null) return
      const want = [...busy.asked.values()].findLast(
        (each) => likelihood(idle, each) === 2 && now - each.askedAt >= this.#settings.turnPatience,
      )
      if (want === undefined || weight(want) > busy.pendingBytes) continue
      this.#counts.relieves++
      busy.pendingBytes -= weight(want)
      this.#takeFrom(busy, want)
      busy.told.delete(want.cid.key)
      busy.outbox.want(cancelOf(want.cid))
      this.#ask(now, idle, want)
    }
  }

  #busiest(): Source | null {
    let busiest: Source | null = null
    for (const source of this.#sources.values()) {
      if (source.asked.size > 0 && source.pendingBytes > (busiest?.pendingBytes ?? 0)) busiest = source
    }
    return busiest
  }

  /**
   * Who should be asked for a block. Those who surely have it come before those who might, the talking before the
   * silent, and then whoever owes and gave us least. Nobody, while all who surely have it are busy.
   */
  #best(want: Want, except: Source | null): Source | null {
    let best: Source | null = null
    let bestRank: number[] = []
    let isSomewhere = false
    for (const source of this.#sources.values()) {
      const likely = likelihood(source, want)
      if (likely === 2 && source.silences === 0) isSomewhere = true
      if (likely === 0 || source === except || !this.#hasRoom(source, want)) continue
      const rank = [-likely, source.silences, source.asked.size, source.askedBytes + source.receivedBytes]
      if (best === null || isBefore(rank, bestRank)) {
        best = source
        bestRank = rank
      }
    }
    const isGuess = best !== null && likelihood(best, want) < 2
    return isGuess && isSomewhere && except === null ? null : best
  }

  #hasRoom(source: Source, want: Want): boolean {
    if (source.asked.size === 0) return true
    if (source.silences > 0) return false
    const { blocksInFlightMax, bytesInFlightMax } = this.#settings
    return source.asked.size < blocksInFlightMax && source.askedBytes + weight(want) <= bytesInFlightMax
  }

  #ask(now: Millis, source: Source, want: Want): void {
    if (source.asked.size === 0) {
      source.heardAt = now
      source.gaveAt = now
    }
    want.asked = source
    want.askedAt = now
    source.asked.set(want.cid.key, want)
    source.askedBytes += weight(want)
    this.#askedBytes += weight(want)
    source.told.set(want.cid.key, 'block')
    this.#tellWant(source, want)
  }

  #tellWant(source: Source, { cid }: Want): void {
    source.outbox.want({ cid, type: 'block', cancel: false, priority: this.#nextPriority(), sendDontHave: true })
  }

  #takeFrom(source: Source, want: Want): void {
    if (!source.asked.delete(want.cid.key)) return
    source.askedBytes -= weight(want)
    this.#askedBytes -= weight(want)
    want.asked = null
  }

  /** Makes a want one of the next to be asked for. */
  #putBack(want: Want): void {
    if (want.asked !== null) this.#takeFrom(want.asked, want)
    this.#unasked.again.set(want.cid.key, want)
  }

  /** Asks a peer that has not everything to tell when it has what we want. */
  #tellInterest(source: Source): void {
    if (source.have === 'all') return
    while (source.toldUpTo < this.#everWanted.length && source.told.size < this.#settings.interestMax) {
      const key = this.#everWanted[source.toldUpTo++]
      const want = key === undefined ? undefined : this.#wants.get(key)
      if (key === undefined || want === undefined || source.told.has(key) || source.knows.has(key)) continue
      source.told.set(key, 'have')
      // Of a peer that has nothing yet, silence says enough.
      const sendDontHave = source.have === 'some'
      source.outbox.want({ cid: want.cid, type: 'have', cancel: false, priority: this.#nextPriority(), sendDontHave })
    }
  }

  /** First asked is most urgent. */
  #nextPriority(): number {
    this.#priority = this.#priority > 1 ? this.#priority - 1 : PRIORITY_FIRST
    return this.#priority
  }
}

/** 2: it surely has the block. 1: it might. 0: it has not. */
function likelihood(source: Source, want: Want): 0 | 1 | 2 {
  const told = source.knows.get(want.cid.key)
  if (told !== undefined) return told ? 2 : 0
  switch (source.have) {
    case 'all':
      return 2
    case 'some':
      return 1
    case 'none':
      return 0
  }
}

function weight(want: Want): number {
  return want.size ?? UNKNOWN_BLOCK_BYTES
}

function isBefore(a: readonly number[], b: readonly number[]): boolean {
  for (const [i, value] of a.entries()) {
    const other = b[i] ?? 0
    if (value !== other) return value < other
  }
  return false
}

function cancelOf(cid: Cid) {
  return { cid, type: 'block', cancel: true, priority: 0, sendDontHave: false } as const
}
