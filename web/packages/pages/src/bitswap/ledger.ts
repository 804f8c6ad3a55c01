import type { Cid, CidKey } from '../content/index.ts'
import { otherCids } from './requester/wants.ts'
import { Rng } from './rng.ts'
import type { Limits } from './limits.ts'
import { presenceLength, type Presence, type WantEntry } from './message.ts'
import type { Block } from './message.ts'
import { PeerMap, comparePeers, sortedPeers, type PeerId } from './peer.ts'
import { earliest, type Nanos } from './time.ts'
import type { Totals } from './totals.ts'
import { AbandonedReads } from './ledger/abandoned-reads.ts'
import { Account } from './ledger/account.ts'
import { SentBlocks } from './ledger/sent-blocks.ts'

/** Presences in one message. Further presences follow in the next. */
const PRESENCES_PER_MESSAGE = 1024
/** With this many peers that want blocks, peers can serve each other. */
const SWARM_LEECHERS_MIN = 4
/** The usual length of a presence in a message. */
const PRESENCE_BYTES = 48

/** A peer that takes turns. */
interface Turn {
  readonly peer: PeerId
  readonly account: Account
}

/** Answers to the wants of a peer. */
export interface Answers {
  readonly presences: readonly Presence[]
  readonly blocks: readonly Block[]
  /** Bytes of blocks that the peer still waits for. */
  readonly pendingBytes: number
  readonly hasMore: boolean
}

/**
 * The part of the exchange that serves blocks. It remembers a bounded wantlist of each peer. Blocks are read only for
 * peers whose send buffer has room. Peers take turns, one message each.
 */
export class Ledger {
  readonly #limits: Limits
  readonly #totals: Totals
  readonly #accounts = new PeerMap<Account>()
  /** The peers that want each block. */
  readonly #wanters = new Map<CidKey, Set<PeerId>>()
  /** Blocks that the store was asked for, and the peers that want them. */
  readonly #lookups = new Map<CidKey, PeerId[]>()
  /** Peers with queued blocks for which no block is being read. */
  readonly #ready = new Set<PeerId>()
  /** The peer that had the last turn. */
  #turn: Turn | null = null
  /** Decides the order of turns. If it were the same everywhere, all peers would serve the same few peers first. */
  readonly #rng: Rng
  /** Peers with answers to send. */
  readonly peersToUpdate = new Set<PeerId>()
  /** Bytes of blocks read, or being read, for connected peers. */
  readingBytes = 0
  readonly #abandonedReads = new AbandonedReads()
  readonly #sentBlocks = new SentBlocks()
  /** When to choose a turn again, if all wanted blocks are left to other peers until then. */
  heldBackUntil: Nanos | null = null

  constructor(limits: Limits, totals: Totals, seed: bigint) {
    this.#rng = new Rng(~seed)
    this.#limits = limits
    this.#totals = totals
  }

  handleConnected(peer: PeerId): void {
    this.#accounts.set(peer, new Account(this.#limits, this.#rng.nextU64()))
  }

  handleDisconnected(peer: PeerId): void {
    const account = this.#accounts.get(peer)
    if (account === undefined) return
    this.#accounts.delete(peer)
    for (const key of account.wants.keys()) this.#removeWanter(key, peer)
    this.readingBytes -= account.batch.bytes
    this.#abandonedReads.add(peer, account.batch.reading)
    this.#ready.delete(peer)
    this.peersToUpdate.delete(peer)
  }

  /** Handles the wants of a message. Returns the blocks to look up in the store. */
  handleWants(peer: PeerId, full: boolean, entries: readonly WantEntry[]): Cid[] {
    const lookups: Cid[] = []
    const account = this.#accounts.get(peer)
    if (account === undefined) return lookups
    if (full) {
      const listed = new Set(entries.filter(({ cancel }) => !cancel).map(({ cid }) => cid.key))
      for (const { cid } of [...account.wants.values()]) if (!listed.has(cid.key)) this.#cancel(peer, cid)
    }
    for (const entry of entries) {
      if (entry.cancel) {
        this.#cancel(peer, entry.cid)
      } else if (this.#want(peer, account, entry)) {
        const peers = this.#lookups.get(entry.cid.key)
        if (peers === undefined) {
          lookups.push(entry.cid)
          this.#lookups.set(entry.cid.key, [peer])
        } else {
          peers.push(peer)
        }
      }
    }
    return lookups
  }

  /** Returns whether the block must be looked up in the store. */
  #want(peer: PeerId, account: Account, entry: WantEntry): boolean {
    const { cid, sendDontHave } = entry
    if (!account.wants.has(cid.key)) {
      if (account.wants.size >= this.#limits.wantsPerPeerMax) {
        this.#totals.rejectedWants++
        if (sendDontHave) {
          account.queuePresence(cid, false)
          this.peersToUpdate.add(peer)
        }
        return false
      }
      const wanters = this.#wanters.get(cid.key)
      if (wanters === undefined) this.#wanters.set(cid.key, new Set([peer]))
      else wanters.add(peer)
    }
    return account.want(entry)
  }

  #cancel(peer: PeerId, cid: Cid): void {
    const account = this.#accounts.get(peer)
    if (account?.isQueued(cid) === true) this.#sentBlocks.noteCancelled(cid)
    if (account?.forget(cid) === true) this.#removeWanter(cid.key, peer)
    this.#updateReady(peer)
  }

  #removeWanter(key: CidKey, peer: PeerId): void {
    const wanters = this.#wanters.get(key)
    wanters?.delete(peer)
    if (wanters?.size === 0) this.#wanters.delete(key)
  }

  /** The store returned the length of a block. `null` if the block is not in the store. */
  handleLookup(cid: Cid, length: number | null): void {
    const peers = this.#lookups.get(cid.key) ?? []
    this.#lookups.delete(cid.key)
    this.#settleWants(cid.key, length, peers)
  }

  /** A block was added to the store. */
  handleStored(cid: Cid, length: number): void {
    if (this.#wanters.size === 0) return
    for (const name of [...otherCids(cid), cid.key]) {
      const wanters = this.#wanters.get(name)
      if (wanters !== undefined) this.#settleWants(name, length, sortedPeers(wanters))
    }
  }

  #settleWants(key: CidKey, length: number | null, peers: readonly PeerId[]): void {
    for (const peer of peers) {
      const account = this.#accounts.get(peer)
      const wanted = account?.wants.get(key)
      if (account === undefined || wanted === undefined) continue
      const { cid, state } = wanted
      if (length === null) {
        if (state.kind === 'looking' && account.markAbsent(cid)) this.peersToUpdate.add(peer)
        continue
      }
      if (state.kind !== 'looking' && state.kind !== 'absent') continue
      if (wanted.kind === 'block' || length <= this.#limits.inlineBlockBytesMax) {
        account.queue(cid, length)
        this.#updateReady(peer)
      } else {
        account.queuePresence(cid, true)
        account.forget(cid)
        this.#removeWanter(key, peer)
        this.peersToUpdate.add(peer)
      }
    }
  }

  #updateReady(peer: PeerId): void {
    if (this.#accounts.get(peer)?.isReady === true) this.#ready.add(peer)
    else this.#ready.delete(peer)
  }

  get hasReadyPeer(): boolean {
    return this.#ready.size > 0
  }

  /** Peers with queued blocks while other peers have their turn, and the queued bytes. */
  waitingPeers(): { readonly peer: PeerId; readonly pendingBytes: number }[] {
    return this.#turns().map(({ peer, account }) => ({ peer, pendingBytes: account.queuedBytes }))
  }

  /** Peers with queued blocks, in turn order. */
  #turns(): Turn[] {
    const turns: Turn[] = []
    for (const peer of this.#ready) {
      const account = this.#accounts.get(peer)
      if (account !== undefined) turns.push({ peer, account })
    }
    return turns.sort(byTurnKey)
  }

  /**
   * Starts reads for the peer that has its turn. `null` if there is none with room. `isSource` says whether this side
   * wants no blocks.
   */
  readNext(now: Nanos, bytesMax: number, room: (peer: PeerId) => number, isSource: boolean): { peer: PeerId; cids: Cid[] } | null {
    const held = this.readingBytes + this.#abandonedReads.bytes
    const left = Math.max(0, this.#limits.readingBytesMax - held)
    const free = Math.min(bytesMax, left)
    const turn = free === 0 ? null : this.#nextTurn(now, room, isSource)
    if (turn === null) return null
    const { peer, account } = turn
    const most = Math.min(free, room(peer), this.#limits.messageBytesMax)
    const sent = (cid: Cid) => this.#sentBlocks.count(cid)
    // A block may exceed the room only if it is the only one.
    if (held > 0 && account.nextLength(sent) > left) return null
    const cids = account.nextBatch(most, sent)
    this.#turn = turn
    for (const cid of cids) this.#sentBlocks.add(now, cid)
    this.readingBytes += account.batch.bytes
    this.#ready.delete(peer)
    return { peer, cids }
  }

  /**
   * Chooses the next turn among the peers with room. A peer that takes a block which was never sent is first, because
   * it can serve that block. Then comes, once a round, the peer that is furthest behind. No peer is skipped forever.
   */
  #nextTurn(now: Nanos, room: (peer: PeerId) => number, isSource: boolean): Turn | null {
    const turns = this.#turns()
    const last = this.#turn
    const after = last === null ? 0 : turns.filter((turn) => byTurnKey(turn, last) <= 0).length
    const inTurn = [...turns.slice(after), ...turns.slice(0, after)].filter(({ peer }) => room(peer) > 0)
    const [first] = inTurn
    if (first === undefined) return null
    const passedOverMax = 2 * this.#ready.size
    const isHeld = (account: Account) => isSource && this.#heldBackUntilFor(now, account) !== null
    const isNext = ({ account }: Turn) =>
      account.hasFresh((cid) => this.#sentBlocks.count(cid) > 0) || (account.passedOver > passedOverMax && !isHeld(account))
    const isPatient = isSource && this.#isCrowded()
    const next = inTurn.find(isNext) ?? furthestBehind(isPatient ? this.#withoutHeldBack(now, inTurn) : inTurn)
    if (next === null) return null
    if (next !== first) first.account.passedOver++
    next.account.passedOver = 0
    next.account.isFavoured = next !== first
    return next
  }

  /** Whether so many peers want blocks that most of them can get blocks from each other. */
  #isCrowded(): boolean {
    let wanting = 0
    for (const account of this.#accounts.values()) if (account.wants.size > 0 && ++wanting === SWARM_LEECHERS_MIN) return true
    return false
  }

  /** Peers that can get a block which is not left to others. */
  #withoutHeldBack(now: Nanos, turns: readonly Turn[]): Turn[] {
    let until: Nanos | null = null
    const free = turns.filter(({ account }) => {
      const held = this.#heldBackUntilFor(now, account)
      until = earliest(until, held)
      return held === null
    })
    this.heldBackUntil = free.length === 0 ? until : null
    return free
  }

  /** Until when the next block of a peer is left to others. `null` if it is not. */
  #heldBackUntilFor(now: Nanos, account: Account): Nanos | null {
    const cid = account.nextDeferrable((cid) => this.#sentBlocks.count(cid))
    const until = cid === null ? null : this.#sentBlocks.heldBackUntil(cid)
    return until !== null && until > now ? until : null
  }

  /** The store read a block, or could not. */
  handleRead(peer: PeerId, cid: Cid, block: Block | null): void {
    const account = this.#accounts.get(peer)
    const released = account?.read(cid, block) ?? null
    if (account === undefined || released === null) {
      // If the block is being read for an earlier connection of the peer too, either answer will do.
      this.#abandonedReads.read(peer, cid)
      return
    }
    this.readingBytes -= released
    if (account.batch.isComplete || account.isUrgent) this.peersToUpdate.add(peer)
    this.#updateReady(peer)
  }

  /** Whether the peer has answers that must be sent without delay. */
  hasUrgent(peer: PeerId): boolean {
    const account = this.#accounts.get(peer)
    return account !== undefined && (account.isUrgent || account.batch.isComplete)
  }

  /** Takes answers for a message to a peer: at most `roomBytes`, or a single block. The blocks count as sent. */
  takeAnswers(peer: PeerId, roomBytes: number): Answers {
    const account = this.#accounts.get(peer)
    if (account === undefined) return { presences: [], blocks: [], pendingBytes: 0, hasMore: false }
    const presencesMax = Math.min(PRESENCES_PER_MESSAGE, Math.max(1, Math.floor(roomBytes / PRESENCE_BYTES)))
    const presences = account.takePresences(presencesMax)
    const presencesBytes = presences.reduce((sum, presence) => sum + presenceLength(presence), 0)
    const bytesBefore = account.batch.bytes
    const taken = account.takeBlocks(Math.max(0, roomBytes - presencesBytes))
    this.readingBytes -= bytesBefore - account.batch.bytes
    const hasMore = account.hasPresencesLeft || account.batch.isComplete
    const pendingBytes = account.queuedBytes
    for (const { cid } of taken) if (account.forget(cid)) this.#removeWanter(cid.key, peer)
    this.#updateReady(peer)
    return { presences, blocks: taken.map(({ block }) => block), pendingBytes, hasMore }
  }
}

/**
 * The peer that lacks clearly more blocks than the first one and did not get another peer's turn last time. So all
 * peers complete at about the same time, and all uplinks are used to the end.
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

function byTurnKey(a: Turn, b: Turn): number {
  if (a.account.turnKey !== b.account.turnKey) return a.account.turnKey < b.account.turnKey ? -1 : 1
  return comparePeers(a.peer, b.peer)
}
