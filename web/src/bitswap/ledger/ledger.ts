import type { Cid, CidKey } from '../../content/index.ts'
import { otherNames } from '../asking/wants.ts'
import { Dice } from '../dice.ts'
import type { ExchangeLimits } from '../limits.ts'
import { presenceBytes, type BlockPresence, type WantEntry } from '../message.ts'
import type { Block } from '../output.ts'
import { PeerMap, compare, sorted, type PeerId } from '../peer.ts'
import { earliest, type Nanos } from '../time.ts'
import type { Totals } from '../totals.ts'
import { Abandoned } from './abandoned.ts'
import { Account } from './account.ts'
import { Sent } from './sent.ts'

/** Presences in one message; others follow in the next. */
const PRESENCES_PER_MESSAGE = 1024
/** So many who want something are sure to have something for one another. */
const CROWD_MIN = 4
/** What a presence usually takes in a message. */
const PRESENCE_BYTES = 48

/** A peer that takes turns. */
interface Turn {
  readonly peer: PeerId
  readonly account: Account
}

/** What a peer is to be told of its wants. */
export interface Answers {
  readonly presences: readonly BlockPresence[]
  readonly blocks: readonly Block[]
  /** Bytes of blocks that it still has to wait for. */
  readonly pendingBytes: number
  readonly isMore: boolean
}

/**
 * The half of a node that gives blocks to those who want them. Of each peer it remembers a bounded wantlist. A block is
 * read only for a peer whose pipe has room for it; peers take turns, a message each.
 */
export class Ledger {
  readonly #limits: ExchangeLimits
  readonly #totals: Totals
  readonly #accounts = new PeerMap<Account>()
  /** Who wants each block. */
  readonly #wanters = new Map<CidKey, Set<PeerId>>()
  /** Blocks that the store was asked about, and for whom. */
  readonly #looking = new Map<CidKey, PeerId[]>()
  /** Peers with blocks queued, and none being read for them. */
  readonly #ready = new Set<PeerId>()
  /** Whose turn it was. */
  #turn: Turn | null = null
  /** Decides who comes after whom. Were that the same everywhere, all would serve the same few first. */
  readonly #dice: Dice
  /** Peers to whom something is to be told. */
  readonly touched = new Set<PeerId>()
  /** For those who are here. */
  readingBytes = 0
  readonly #abandoned = new Abandoned()
  readonly #sent = new Sent()
  /** When to look again for whom to read, where all that is wanted is left to others until then. */
  heldUntil: Nanos | null = null

  constructor(limits: ExchangeLimits, totals: Totals, seed: bigint) {
    this.#dice = new Dice(~seed)
    this.#limits = limits
    this.#totals = totals
  }

  connected(peer: PeerId): void {
    this.#accounts.set(peer, new Account(this.#limits, this.#dice.throw()))
  }

  disconnected(peer: PeerId): void {
    const account = this.#accounts.get(peer)
    if (account === undefined) return
    this.#accounts.delete(peer)
    for (const key of account.wants.keys()) this.#noLongerWantedBy(key, peer)
    this.readingBytes -= account.batch.bytes
    this.#abandoned.add(peer, account.batch.reading)
    this.#ready.delete(peer)
    this.touched.delete(peer)
  }

  wantsOf(peer: PeerId): number {
    return this.#accounts.get(peer)?.wants.size ?? 0
  }

  /** What a peer's message wants. The blocks that the store is to be asked about. */
  wanted(peer: PeerId, full: boolean, entries: readonly WantEntry[]): Cid[] {
    const looks: Cid[] = []
    const account = this.#accounts.get(peer)
    if (account === undefined) return looks
    if (full) {
      const listed = new Set(entries.filter(({ cancel }) => !cancel).map(({ cid }) => cid.key))
      for (const { cid } of [...account.wants.values()]) if (!listed.has(cid.key)) this.#cancelled(peer, cid)
    }
    for (const entry of entries) {
      if (entry.cancel) {
        this.#cancelled(peer, entry.cid)
      } else if (this.#want(peer, account, entry)) {
        const peers = this.#looking.get(entry.cid.key)
        if (peers === undefined) {
          looks.push(entry.cid)
          this.#looking.set(entry.cid.key, [peer])
        } else {
          peers.push(peer)
        }
      }
    }
    return looks
  }

  /** Whether the store is to be asked about the block. */
  #want(peer: PeerId, account: Account, entry: WantEntry): boolean {
    const { cid, sendDontHave } = entry
    if (!account.wants.has(cid.key)) {
      if (account.wants.size >= this.#limits.wantsPerPeerMax) {
        this.#totals.wantsRefused++
        if (sendDontHave) {
          account.tell(cid, false)
          this.touched.add(peer)
        }
        return false
      }
      const wanters = this.#wanters.get(cid.key)
      if (wanters === undefined) this.#wanters.set(cid.key, new Set([peer]))
      else wanters.add(peer)
    }
    return account.want(entry)
  }

  #cancelled(peer: PeerId, cid: Cid): void {
    const account = this.#accounts.get(peer)
    if (account?.isQueued(cid) === true) this.#sent.takenBack(cid)
    if (account?.forget(cid) === true) this.#noLongerWantedBy(cid.key, peer)
    this.#isReadyOrNot(peer)
  }

  #noLongerWantedBy(key: CidKey, peer: PeerId): void {
    const wanters = this.#wanters.get(key)
    wanters?.delete(peer)
    if (wanters?.size === 0) this.#wanters.delete(key)
  }

  /** The store said how long the block is, or that it has none. */
  found(cid: Cid, length: number | null): void {
    const peers = this.#looking.get(cid.key) ?? []
    this.#looking.delete(cid.key)
    this.#settleWants(cid.key, length, peers)
  }

  /** A block is in the store from now on. */
  have(cid: Cid, length: number): void {
    if (this.#wanters.size === 0) return
    for (const name of [...otherNames(cid), cid.key]) {
      const wanters = this.#wanters.get(name)
      if (wanters !== undefined) this.#settleWants(name, length, sorted(wanters))
    }
  }

  #settleWants(key: CidKey, length: number | null, peers: readonly PeerId[]): void {
    for (const peer of peers) {
      const account = this.#accounts.get(peer)
      const wanted = account?.wants.get(key)
      if (account === undefined || wanted === undefined) continue
      const { cid, state } = wanted
      if (length === null) {
        if (state.kind === 'looking' && account.isAbsent(cid)) this.touched.add(peer)
        continue
      }
      if (state.kind !== 'looking' && state.kind !== 'absent') continue
      if (wanted.type === 'block' || length <= this.#limits.giftBytesMax) {
        account.queue(cid, length)
        this.#isReadyOrNot(peer)
      } else {
        account.tell(cid, true)
        account.forget(cid)
        this.#noLongerWantedBy(key, peer)
        this.touched.add(peer)
      }
    }
  }

  #isReadyOrNot(peer: PeerId): void {
    if (this.#accounts.get(peer)?.isReady === true) this.#ready.add(peer)
    else this.#ready.delete(peer)
  }

  get isAnyoneReady(): boolean {
    return this.#ready.size > 0
  }

  /** Peers with blocks queued while others have their turn, and how many bytes. */
  waiting(): { readonly peer: PeerId; readonly pendingBytes: number }[] {
    return this.#turns().map(({ peer, account }) => ({ peer, pendingBytes: account.queuedBytes }))
  }

  /** Those with blocks queued, as they sit. */
  #turns(): Turn[] {
    const turns: Turn[] = []
    for (const peer of this.#ready) {
      const account = this.#accounts.get(peer)
      if (account !== undefined) turns.push({ peer, account })
    }
    return turns.sort(bySeat)
  }

  /**
   * Begins to read for the peer whose turn it is, if there is any with room. `isSource` says whether we want nothing
   * ourselves.
   */
  readNext(
    now: Nanos,
    bytesMax: number,
    room: (peer: PeerId) => number,
    isSource: boolean,
  ): { peer: PeerId; cids: Cid[] } | null {
    const held = this.readingBytes + this.#abandoned.bytes
    const left = Math.max(0, this.#limits.readingBytesMax - held)
    const free = Math.min(bytesMax, left)
    const turn = free === 0 ? null : this.#nextTurn(now, room, isSource)
    if (turn === null) return null
    const { peer, account } = turn
    const most = Math.min(free, room(peer), this.#limits.messageBytesMax)
    const sent = (cid: Cid) => this.#sent.count(cid)
    // Only a block that is alone may be longer than what is left.
    if (held > 0 && account.nextLength(sent) > left) return null
    const cids = account.nextBatch(most, sent)
    this.#turn = turn
    for (const cid of cids) this.#sent.add(now, cid)
    this.readingBytes += account.batch.bytes
    this.#ready.delete(peer)
    return { peer, cids }
  }

  /**
   * Whose turn it is: of those with room, first whoever takes a block that nobody was sent yet, since it can serve that on;
   * then, once a round, whoever is far behind. Nobody is passed over for ever, but for a while all may have to wait for one
   * another's.
   */
  #nextTurn(now: Nanos, room: (peer: PeerId) => number, isSource: boolean): Turn | null {
    const turns = this.#turns()
    const last = this.#turn
    const after = last === null ? 0 : turns.filter((turn) => bySeat(turn, last) <= 0).length
    const inTurn = [...turns.slice(after), ...turns.slice(0, after)].filter(({ peer }) => room(peer) > 0)
    const [first] = inTurn
    if (first === undefined) return null
    const passedOverMax = 2 * this.#ready.size
    const isHeld = (account: Account) => isSource && this.#heldUntil(now, account) !== null
    const isNext = ({ account }: Turn) =>
      account.hasFresh((cid) => this.#sent.count(cid) > 0) || (account.passedOver > passedOverMax && !isHeld(account))
    const isPatient = isSource && this.#isCrowded()
    const next = inTurn.find(isNext) ?? furthestBehind(isPatient ? this.#notHeld(now, inTurn) : inTurn)
    if (next === null) return null
    if (next !== first) first.account.passedOver++
    next.account.passedOver = 0
    next.account.isFavoured = next !== first
    return next
  }

  /** Whether so many want something that they can have it of one another: most of them may not wait for us just now. */
  #isCrowded(): boolean {
    let wanting = 0
    for (const account of this.#accounts.values()) if (account.wants.size > 0 && ++wanting === CROWD_MIN) return true
    return false
  }

  /** Those to whom something can be sent that is not left to others. */
  #notHeld(now: Nanos, turns: readonly Turn[]): Turn[] {
    let until: Nanos | null = null
    const free = turns.filter(({ account }) => {
      const held = this.#heldUntil(now, account)
      until = earliest(until, held)
      return held === null
    })
    this.heldUntil = free.length === 0 ? until : null
    return free
  }

  /** Until when what would be sent to a peer is left to others. */
  #heldUntil(now: Nanos, account: Account): Nanos | null {
    const cid = account.nextPatient((cid) => this.#sent.count(cid))
    const until = cid === null ? null : this.#sent.heldUntil(cid)
    return until !== null && until > now ? until : null
  }

  /** A block was read, or could not be. */
  read(peer: PeerId, cid: Cid, block: Block | null): void {
    const account = this.#accounts.get(peer)
    const released = account?.read(cid, block) ?? null
    if (account === undefined || released === null) {
      // Where it is read for who was here before, too, either answer will do.
      this.#abandoned.read(peer, cid)
      return
    }
    this.readingBytes -= released
    if (account.batch.isComplete || account.isUrgent) this.touched.add(peer)
    this.#isReadyOrNot(peer)
  }

  /** Whether a peer is to be told something that cannot wait. */
  isUrgent(peer: PeerId): boolean {
    const account = this.#accounts.get(peer)
    return account !== undefined && (account.isUrgent || account.batch.isComplete)
  }

  /** What a peer is told now, in so many bytes or a single block. Blocks count as sent. */
  answer(peer: PeerId, roomBytes: number): Answers {
    const account = this.#accounts.get(peer)
    if (account === undefined) return { presences: [], blocks: [], pendingBytes: 0, isMore: false }
    const presencesMax = Math.min(PRESENCES_PER_MESSAGE, Math.max(1, Math.floor(roomBytes / PRESENCE_BYTES)))
    const presences = account.takePresences(presencesMax)
    const told = presences.reduce((sum, presence) => sum + presenceBytes(presence), 0)
    const bytesBefore = account.batch.bytes
    const taken = account.takeBlocks(Math.max(0, roomBytes - told))
    this.readingBytes -= bytesBefore - account.batch.bytes
    const isMore = account.hasPresencesLeft || account.batch.isComplete
    const pendingBytes = account.queuedBytes
    for (const { cid } of taken) if (account.forget(cid)) this.#noLongerWantedBy(cid.key, peer)
    this.#isReadyOrNot(peer)
    return { presences, blocks: taken.map(({ block }) => block), pendingBytes, isMore }
  }
}

/**
 * Who lacks clearly more than the first, and has had its own turn since it last went before others. So all have everything
 * at about the same time, and their links are used to the end.
 */
function furthestBehind([first, ...others]: readonly Turn[]): Turn | null {
  if (first === undefined) return null
  let furthest = first
  let most = first.account.wants.size + Math.floor(first.account.wants.size / 8)
  for (const turn of others) {
    const lacked = turn.account.isFavoured ? 0 : turn.account.wants.size
    if (lacked > most) {
      furthest = turn
      most = lacked
    }
  }
  return furthest
}

function bySeat(a: Turn, b: Turn): number {
  if (a.account.seat !== b.account.seat) return a.account.seat < b.account.seat ? -1 : 1
  return compare(a.peer, b.peer)
}
