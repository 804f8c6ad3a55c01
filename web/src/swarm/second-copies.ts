import type { Input, PeerId, WantEntry } from '../bitswap/index.ts'
import type { Cid, CidKey } from '../content/index.ts'
import type { Clock, Millis } from './api.ts'

/** Shorter blocks are never held back: a DAG's inner nodes are short, and much waits for them. */
const SHORT_BYTES = 64 << 10
/** Wants above this priority are what somebody is about to look at. */
const URGENT_ABOVE = 2 ** 31 - 1 - 64
/** Urgent wants that are remembered of one peer: no more can be named as such. */
const URGENT_MAX = 64
/** How long a block is taken to need until it has left, before one has. */
const BLOCK_TAKES: Millis = 250
const BLOCK_TAKES_MAX: Millis = 10_000
/** Least and longest time that somebody who is refused gets nothing from others before we give. */
const PATIENCE_MIN: Millis = 250
const PATIENCE_MAX: Millis = 20_000
/** No block is held back for longer, however well who asks for it is given others. */
const HELD_MAX: Millis = 120_000
/** Copies that are remembered; beyond, the oldest is had by anybody. */
const COPIES_MAX = 4096
/** So many times as long as it would take us to give each a block in turn, before we give the first. */
const TRUST = 3
const LOOK_INTERVAL: Millis = 100

export interface SecondCopiesDeps {
  readonly clock: Clock
  /** Whether it is for us to hold back: we have all of a page that is worth it, as nobody else has. */
  readonly isSource: () => boolean
  /** A block is to be had from now on: whoever waits for it may be told. */
  readonly letGo: (cid: Cid, length: number) => void
}

/** A block that went to somebody. */
interface Copy {
  readonly cid: Cid
  readonly length: number
  /** When it last went. */
  at: Millis
  /** To whom it went, of those who are here. */
  readonly to: Set<PeerId>
  /** Who is refused it: who asked for it, and who asks whether it is here since. */
  readonly askers: Map<PeerId, 'block' | 'have'>
  isHeld: boolean
}

/** Somebody who wants blocks of us. */
interface Guest {
  /** When it last got one, of us or, as far as it tells, of others. */
  fedAt: Millis
  /** Whether we gave it a block because others did not, and they still do not. */
  isStarving: boolean
  readonly urgent: Set<CidKey>
  /** Blocks that are on their way to it. */
  readonly leaving: Set<CidKey>
}

/**
 * What a sharer who alone has all of a page gives nobody for now, because it gave it to another: that one passes it on, and
 * the sharer's uplink is for what nobody else has. Who asks for it is told that it is not here, and asks for something else.
 *
 * Nobody waits for who cannot serve: who was refused and gets nothing from others either, for a few times as long as it
 * would take us to give each of all a block in turn, is given one, and from then on one in each such turn until others give
 * it something. So where nobody passes anything on we give as fast as ever after a moment. What somebody is about to look
 * at is not held back.
 *
 * It stands before the exchange, which is as in the Rust core: to that a block kept back is one that the store lacks. Not in
 * the exchange, because others than browsers hear a `DONT_HAVE` otherwise: kubo leaves a peer that says so too often.
 */
export class SecondCopies {
  readonly #deps: SecondCopiesDeps
  readonly #copies = new Map<CidKey, Copy>()
  readonly #guests = new Map<PeerId, Guest>()
  /** How long a block takes, while there are any on their way. */
  #blockTakes: Millis = BLOCK_TAKES
  #leaving = 0
  #leftAt: Millis = 0
  #stopLooking: (() => void) | null = null

  constructor(deps: SecondCopiesDeps) {
    this.#deps = deps
  }

  /** Something is about to happen to the page's exchange. */
  hear(input: Input): void {
    if (input.kind === 'disconnected') this.#part(input.peer)
    if (input.kind !== 'received') return
    for (const want of input.message.wants) {
      if (want.cancel) this.#wantsNoMore(input.peer, want.cid)
      else this.#wants(input.peer, want)
    }
  }

  /** Whether who asks for a block is told that it is not here. */
  isHeldBack(cid: Cid): boolean {
    if (this.#heldCopy(cid) === null) return false
    for (const { urgent } of this.#guests.values()) if (urgent.has(cid.key)) return false
    return true
  }

  /** Whether a block is kept from a peer though it is that one's turn, because another got it before. */
  isHeldBackFrom(peer: PeerId, cid: Cid): boolean {
    const copy = this.#heldCopy(cid)
    if (copy === null || copy.to.has(peer) || this.#guests.get(peer)?.urgent.has(cid.key) === true) return false
    this.#refuse(peer, copy, 'block')
    return true
  }

  /** A block is about to go to a peer. */
  goes(peer: PeerId, cid: Cid, length: number): void {
    if (length <= SHORT_BYTES || !this.#deps.isSource()) return
    const now = this.#deps.clock.now()
    const copy = this.#copies.get(cid.key) ?? { cid, length, at: now, to: new Set(), askers: new Map(), isHeld: true }
    // Put last, so that the first is the one that went the longest ago.
    this.#copies.delete(cid.key)
    this.#copies.set(cid.key, copy)
    copy.at = now
    copy.isHeld = true
    copy.to.add(peer)
    copy.askers.delete(peer)
    const { leaving } = this.#guestOf(peer)
    if (!leaving.has(cid.key)) {
      leaving.add(cid.key)
      if (this.#leaving++ === 0) this.#leftAt = now
    }
    const [oldest] = this.#copies.values()
    if (this.#copies.size <= COPIES_MAX || oldest === undefined) return
    this.#copies.delete(oldest.cid.key)
    this.#letGo(oldest)
  }

  /** It has gone. */
  left(peer: PeerId, cid: Cid): void {
    const guest = this.#guests.get(peer)
    if (guest === undefined || !this.#leaves(guest, cid.key)) return
    const now = this.#deps.clock.now()
    this.#blockTakes = (this.#blockTakes * 15 + Math.min(BLOCK_TAKES_MAX, now - this.#leftAt)) / 16
    this.#leftAt = now
    guest.fedAt = now
    guest.urgent.delete(cid.key)
  }

  stop(): void {
    this.#stopLooking?.()
  }

  #heldCopy({ key }: Cid): Copy | null {
    const copy = this.#copies.get(key)
    if (copy?.isHeld !== true || this.#deps.clock.now() - copy.at >= HELD_MAX) return null
    return this.#deps.isSource() ? copy : null
  }

  #guestOf(peer: PeerId): Guest {
    const known = this.#guests.get(peer)
    if (known !== undefined) return known
    const guest: Guest = { fedAt: this.#deps.clock.now(), isStarving: false, urgent: new Set(), leaving: new Set() }
    this.#guests.set(peer, guest)
    return guest
  }

  #refuse(peer: PeerId, copy: Copy, asked: 'block' | 'have'): void {
    this.#guestOf(peer)
    copy.askers.set(peer, asked)
    this.#stopLooking ??= this.#deps.clock.after(LOOK_INTERVAL, () => this.#look())
  }

  #wants(peer: PeerId, { cid, type, priority }: WantEntry): void {
    const { urgent } = this.#guestOf(peer)
    if (type === 'have') urgent.delete(cid.key)
    else if (priority > URGENT_ABOVE && urgent.size < URGENT_MAX) urgent.add(cid.key)
    const copy = this.#heldCopy(cid)
    if (copy === null) return
    // What it was sent before has not arrived, or is gone.
    if (type === 'block' && copy.to.delete(peer) && copy.to.size === 0) this.#letGo(copy)
    else this.#refuse(peer, copy, type)
  }

  #wantsNoMore(peer: PeerId, { key }: Cid): void {
    const guest = this.#guests.get(peer)
    if (guest === undefined) return
    guest.urgent.delete(key)
    this.#leaves(guest, key)
    const copy = this.#copies.get(key)
    const asked = copy?.askers.get(peer)
    copy?.askers.delete(peer)
    if (asked !== 'have') return
    // It wants to hear of it no more, and we never told: it has it from another.
    guest.fedAt = this.#deps.clock.now()
    guest.isStarving = false
  }

  /** It is on its way to a peer no more, for whatever reason. */
  #leaves({ leaving }: Guest, key: CidKey): boolean {
    if (!leaving.delete(key)) return false
    this.#leaving--
    return true
  }

  #part(peer: PeerId): void {
    this.#leaving -= this.#guests.get(peer)?.leaving.size ?? 0
    this.#guests.delete(peer)
    for (const copy of [...this.#copies.values()]) {
      copy.askers.delete(peer)
      if (copy.to.delete(peer) && copy.to.size === 0) this.#letGo(copy)
    }
  }

  /** Whether somebody who is refused has gone without a block for too long. */
  #isHungry({ fedAt, isStarving }: Guest, now: Millis): boolean {
    const aRound = this.#guests.size * this.#blockTakes * (isStarving ? 1 : TRUST)
    return now - fedAt >= Math.min(PATIENCE_MAX, Math.max(PATIENCE_MIN, aRound))
  }

  #look(): void {
    const now = this.#deps.clock.now()
    const hungry = new Set<PeerId>()
    for (const [peer, guest] of this.#guests) if (this.#isHungry(guest, now)) hungry.add(peer)
    let isAnyoneWaiting = false
    for (const copy of [...this.#copies.values()]) {
      if (copy.askers.size === 0) continue
      const asker = [...copy.askers.keys()].find((peer) => hungry.has(peer))
      if (this.#heldCopy(copy.cid) !== null && asker === undefined) {
        isAnyoneWaiting = true
        continue
      }
      if (asker !== undefined) {
        const guest = this.#guestOf(asker)
        guest.fedAt = now
        guest.isStarving = true
        hungry.delete(asker)
      }
      this.#letGo(copy)
    }
    this.#stopLooking = isAnyoneWaiting ? this.#deps.clock.after(LOOK_INTERVAL, () => this.#look()) : null
  }

  #letGo(copy: Copy): void {
    if (!copy.isHeld) return
    copy.isHeld = false
    copy.askers.clear()
    this.#deps.letGo(copy.cid, copy.length)
  }
}
