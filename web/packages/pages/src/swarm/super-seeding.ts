import type { Input, PeerId, WantEntry } from '../bitswap/index.ts'
import type { Cid, CidKey } from '../content/index.ts'
import type { Clock, Millis } from './clock.ts'

/** Shorter blocks are never held back. The inner nodes of a DAG are short, and readers need them first. */
const SHORT_BYTES = 64 << 10
/** Wants above this priority are urgent. */
const URGENT_ABOVE = 2 ** 31 - 1 - 64
/** Urgent wants that are remembered per peer. A peer cannot mark more as urgent. */
const URGENT_MAX = 64
/** The time a block takes to be sent, before one was sent. */
const BLOCK_DURATION: Millis = 250
const BLOCK_DURATION_MAX: Millis = 10_000
/** Bounds on the time after which a refused peer gets a block. */
const STARVED_AFTER_MIN: Millis = 250
const STARVED_AFTER_MAX: Millis = 20_000
/** The longest time for which a block is held back. */
const HELD_MAX: Millis = 120_000
/** Sent blocks that are remembered. When the limit is reached, the oldest block is released. */
const COPIES_MAX = 4096
/** A refused peer gets its first block after this many rounds, in which each peer could have been sent one block. */
const ROUNDS_BEFORE_GIVING = 3
const CHECK_INTERVAL: Millis = 100

export interface SuperSeedingDeps {
  readonly clock: Clock
  /** Whether to hold blocks back: this tab is the source of a large page. */
  readonly isSource: () => boolean
  /** The block is available from now on, also to peers that wait for it. */
  readonly release: (cid: Cid, length: number) => void
}

/** A block that was sent to a peer. */
interface SentBlock {
  readonly cid: Cid
  readonly length: number
  /** When it was last sent. */
  at: Millis
  /** The connected peers that it was sent to. */
  readonly to: Set<PeerId>
  /** The peers that are refused the block, and whether each sent a want-block or a want-have. */
  readonly refused: Map<PeerId, 'block' | 'have'>
  isHeld: boolean
}

/** A peer that wants blocks. */
interface LeechState {
  /** When it last got a block from this tab, or from another peer as far as its messages show. */
  lastBlockAt: Millis
  /** Whether it got a block because other peers gave it none, and they still give it none. */
  gotNothingFromOthers: boolean
  readonly urgent: Set<CidKey>
  /** Blocks that are being sent to it. */
  readonly sending: Set<CidKey>
}

/**
 * Super-seeding: a seeder that has the only full copy sends each block once, and lets the peers exchange it. So its
 * uplink is used for blocks that no other peer has. A peer that wants a held-back block gets DONT_HAVE, and requests
 * another block.
 *
 * No peer starves. A refused peer that gets nothing from others for a few rounds is sent a block. Then it gets one
 * block in each round, until others send it blocks. So if the peers do not serve each other, the seeder soon sends as
 * fast as without super-seeding. Urgent blocks are not held back.
 *
 * This class stands before the exchange, for which a held-back block is one that the store lacks. It is not part of the
 * exchange, because other software understands `DONT_HAVE` differently: kubo leaves a peer that sends it too often.
 */
export class SuperSeeding {
  readonly #deps: SuperSeedingDeps
  readonly #copies = new Map<CidKey, SentBlock>()
  readonly #peers = new Map<PeerId, LeechState>()
  /** The time that it takes to send a block. */
  #blockDuration: Millis = BLOCK_DURATION
  #sendingBlocks = 0
  #lastSentAt: Millis = 0
  #stopTimer: (() => void) | null = null

  constructor(deps: SuperSeedingDeps) {
    this.#deps = deps
  }

  /** Handles an input before the page's exchange does. */
  handleInput(input: Input): void {
    if (input.kind === 'disconnected') this.#handleDisconnected(input.peer)
    if (input.kind !== 'message') return
    for (const want of input.message.wants) {
      if (want.cancel) this.#handleCancel(input.peer, want.cid)
      else this.#handleWant(input.peer, want)
    }
  }

  /** Whether a peer that wants the block gets DONT_HAVE. */
  isHeldBack(cid: Cid): boolean {
    if (this.#heldCopy(cid) === null) return false
    for (const { urgent } of this.#peers.values()) if (urgent.has(cid.key)) return false
    return true
  }

  /**
   * Whether a block is held back from a peer although it is the peer's turn, because another peer was sent the block.
   */
  isHeldBackFrom(peer: PeerId, cid: Cid): boolean {
    const copy = this.#heldCopy(cid)
    if (copy === null || copy.to.has(peer) || this.#peers.get(peer)?.urgent.has(cid.key) === true) return false
    this.#refuse(peer, copy, 'block')
    return true
  }

  /** A block is about to be sent to a peer. */
  noteSending(peer: PeerId, cid: Cid, length: number): void {
    if (length <= SHORT_BYTES || !this.#deps.isSource()) return
    const now = this.#deps.clock.now()
    const copy = this.#copies.get(cid.key) ?? { cid, length, at: now, to: new Set(), refused: new Map(), isHeld: true }
    // Moved to the end, so that the first entry is the one sent longest ago.
    this.#copies.delete(cid.key)
    this.#copies.set(cid.key, copy)
    copy.at = now
    copy.isHeld = true
    copy.to.add(peer)
    copy.refused.delete(peer)
    const { sending } = this.#peerOf(peer)
    if (!sending.has(cid.key)) {
      sending.add(cid.key)
      if (this.#sendingBlocks++ === 0) this.#lastSentAt = now
    }
    const [oldest] = this.#copies.values()
    if (this.#copies.size <= COPIES_MAX || oldest === undefined) return
    this.#copies.delete(oldest.cid.key)
    this.#release(oldest)
  }

  /** The block was sent. */
  noteSent(peer: PeerId, cid: Cid): void {
    const guest = this.#peers.get(peer)
    if (guest === undefined || !this.#removeSending(guest, cid.key)) return
    const now = this.#deps.clock.now()
    this.#blockDuration = (this.#blockDuration * 15 + Math.min(BLOCK_DURATION_MAX, now - this.#lastSentAt)) / 16
    this.#lastSentAt = now
    guest.lastBlockAt = now
    guest.urgent.delete(cid.key)
  }

  stop(): void {
    this.#stopTimer?.()
  }

  #heldCopy({ key }: Cid): SentBlock | null {
    const copy = this.#copies.get(key)
    if (copy?.isHeld !== true || this.#deps.clock.now() - copy.at >= HELD_MAX) return null
    return this.#deps.isSource() ? copy : null
  }

  #peerOf(peer: PeerId): LeechState {
    const known = this.#peers.get(peer)
    if (known !== undefined) return known
    const guest: LeechState = { lastBlockAt: this.#deps.clock.now(), gotNothingFromOthers: false, urgent: new Set(), sending: new Set() }
    this.#peers.set(peer, guest)
    return guest
  }

  #refuse(peer: PeerId, copy: SentBlock, wanted: 'block' | 'have'): void {
    this.#peerOf(peer)
    copy.refused.set(peer, wanted)
    this.#stopTimer ??= this.#deps.clock.after(CHECK_INTERVAL, () => this.#releaseForStarved())
  }

  #handleWant(peer: PeerId, { cid, kind, priority }: WantEntry): void {
    const { urgent } = this.#peerOf(peer)
    if (kind === 'have') urgent.delete(cid.key)
    else if (priority > URGENT_ABOVE && urgent.size < URGENT_MAX) urgent.add(cid.key)
    const copy = this.#heldCopy(cid)
    if (copy === null) return
    // The block that it was sent did not arrive, or was lost.
    if (kind === 'block' && copy.to.delete(peer) && copy.to.size === 0) this.#release(copy)
    else this.#refuse(peer, copy, kind)
  }

  #handleCancel(peer: PeerId, { key }: Cid): void {
    const guest = this.#peers.get(peer)
    if (guest === undefined) return
    guest.urgent.delete(key)
    this.#removeSending(guest, key)
    const copy = this.#copies.get(key)
    const wanted = copy?.refused.get(peer)
    copy?.refused.delete(peer)
    if (wanted !== 'have') return
    // It cancelled a want-have without an answer from this tab, so it got the block from another peer.
    guest.lastBlockAt = this.#deps.clock.now()
    guest.gotNothingFromOthers = false
  }

  /** The block is not being sent to the peer any more. Returns whether it was. */
  #removeSending({ sending }: LeechState, key: CidKey): boolean {
    if (!sending.delete(key)) return false
    this.#sendingBlocks--
    return true
  }

  #handleDisconnected(peer: PeerId): void {
    this.#sendingBlocks -= this.#peers.get(peer)?.sending.size ?? 0
    this.#peers.delete(peer)
    for (const copy of [...this.#copies.values()]) {
      copy.refused.delete(peer)
      if (copy.to.delete(peer) && copy.to.size === 0) this.#release(copy)
    }
  }

  /** Whether the peer has gone without a block for too long. */
  #isStarved({ lastBlockAt, gotNothingFromOthers }: LeechState, now: Millis): boolean {
    const aRound = this.#peers.size * this.#blockDuration * (gotNothingFromOthers ? 1 : ROUNDS_BEFORE_GIVING)
    return now - lastBlockAt >= Math.min(STARVED_AFTER_MAX, Math.max(STARVED_AFTER_MIN, aRound))
  }

  #releaseForStarved(): void {
    const now = this.#deps.clock.now()
    const hungry = new Set<PeerId>()
    for (const [peer, guest] of this.#peers) if (this.#isStarved(guest, now)) hungry.add(peer)
    let isAnyoneWaiting = false
    for (const copy of [...this.#copies.values()]) {
      if (copy.refused.size === 0) continue
      const asker = [...copy.refused.keys()].find((peer) => hungry.has(peer))
      if (this.#heldCopy(copy.cid) !== null && asker === undefined) {
        isAnyoneWaiting = true
        continue
      }
      if (asker !== undefined) {
        const guest = this.#peerOf(asker)
        guest.lastBlockAt = now
        guest.gotNothingFromOthers = true
        hungry.delete(asker)
      }
      this.#release(copy)
    }
    this.#stopTimer = isAnyoneWaiting ? this.#deps.clock.after(CHECK_INTERVAL, () => this.#releaseForStarved()) : null
  }

  #release(copy: SentBlock): void {
    if (!copy.isHeld) return
    copy.isHeld = false
    copy.refused.clear()
    this.#deps.release(copy.cid, copy.length)
  }
}
