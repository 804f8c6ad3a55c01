import { DAG_PB, makeCid, RAW, SHA2_256, type Cid, type CidKey } from '../../content/index.ts'
import type { Want } from '../output.ts'
import type { PeerId } from '../peer.ts'
import { Bits } from './bits.ts'

/** A block that is wanted. */
export interface Wanted {
  readonly cid: Cid
  length: number | null
  urgency: number
  /** Peers that say they have it. */
  holders: number
  /** Peers that it is asked of; more than one only in the tail, or where one is silent. */
  askedOf: PeerId[]
}

/** Blocks that may be named as those to ask for first. */
export const URGENT_MAX = 64

/** All wants, each under a small number that is used again when it is gone. */
export class Wants {
  readonly #slots: (Wanted | null)[] = []
  readonly #free: number[] = []
  readonly #byCid = new Map<CidKey, number>()
  /** All of them. */
  readonly live = new Bits()
  /** Those that are asked of nobody, by urgency, the most urgent first. */
  readonly #open: { readonly urgency: number; readonly bits: Bits }[] = []
  #openSize = 0
  /** To be asked for before all others, in this order, wanted already or not yet. */
  #urgent: readonly CidKey[] = []

  /** Adds a want; its number, and whether the block was not wanted before. */
  add(want: Want): { at: number; isNew: boolean } {
    const before = this.#byCid.get(want.cid.key)
    if (before !== undefined) {
      const wanted = this.get(before)
      wanted.length ??= want.length
      if (want.urgency > wanted.urgency) {
        const wasOpen = this.close(before)
        wanted.urgency = want.urgency
        if (wasOpen) this.reopen(before)
      }
      return { at: before, isNew: false }
    }
    const at = this.#free.pop() ?? this.#slots.push(null) - 1
    this.#byCid.set(want.cid.key, at)
    this.#slots[at] = { cid: want.cid, length: want.length, urgency: want.urgency, holders: 0, askedOf: [] }
    this.live.insert(at)
    this.reopen(at)
    return { at, isNew: true }
  }

  /** The want with this number, if there is one. */
  findAt(at: number): Wanted | null {
    return this.#slots[at] ?? null
  }

  get(at: number): Wanted {
    const wanted = this.findAt(at)
    if (wanted === null) throw new Error('a number is of a live want')
    return wanted
  }

  /** The want for this block, under whichever CID of the same hash it was wanted. */
  find(cid: Cid): number | null {
    const exactly = this.findExactly(cid)
    if (exactly !== null || this.size === 0) return exactly
    for (const name of otherNames(cid)) {
      const at = this.#byCid.get(name)
      if (at !== undefined) return at
    }
    return null
  }

  /** The want for exactly this CID. */
  findExactly(cid: Cid): number | null {
    return this.#byCid.get(cid.key) ?? null
  }

  remove(at: number): Wanted {
    this.close(at)
    this.live.remove(at)
    const wanted = this.get(at)
    this.#slots[at] = null
    this.#byCid.delete(wanted.cid.key)
    this.#free.push(at)
    return wanted
  }

  /** Names what to ask for first. */
  setUrgent(cids: readonly Cid[]): void {
    this.#urgent = cids.slice(0, URGENT_MAX).map(({ key }) => key)
  }

  /** The wants that are to be asked for first, in their order. */
  *urgent(): Generator<number, void> {
    for (const key of this.#urgent) {
      const at = this.#byCid.get(key)
      if (at !== undefined) yield at
    }
  }

  /** Its place among those to be asked for first, from 0; `null` when it is none of them. */
  urgentPlace(at: number): number | null {
    if (this.#urgent.length === 0) return null
    const place = this.#urgent.indexOf(this.get(at).cid.key)
    return place < 0 ? null : place
  }

  /** It is asked of nobody. */
  reopen(at: number): void {
    if (this.#openOf(this.get(at).urgency).insert(at)) this.#openSize++
  }

  /** It is asked of somebody; whether it was not. */
  close(at: number): boolean {
    const wasOpen = this.#openOf(this.get(at).urgency).remove(at)
    if (wasOpen) this.#openSize--
    return wasOpen
  }

  isOpen(at: number): boolean {
    return this.get(at).askedOf.length === 0
  }

  /** Those that are asked of nobody, the most urgent first. */
  open(): readonly Bits[] {
    return this.#open.filter(({ bits }) => bits.size > 0).map(({ bits }) => bits)
  }

  get openSize(): number {
    return this.#openSize
  }

  get size(): number {
    return this.live.size
  }

  #openOf(urgency: number): Bits {
    const found = this.#open.find((each) => each.urgency === urgency)
    if (found !== undefined) return found.bits
    const bits = new Bits()
    this.#open.push({ urgency, bits })
    this.#open.sort((a, b) => b.urgency - a.urgency)
    return bits
  }
}

/** The other CIDs under which blocks of this hash are commonly asked for: stores go by the hash alone. */
export function otherNames({ hash, digest, key }: Cid): CidKey[] {
  if (hash !== SHA2_256) return []
  return [RAW, DAG_PB].map((codec) => makeCid(1, codec, hash, digest).key).filter((name) => name !== key)
}
