import { DAG_PB, makeCid, RAW, SHA2_256, type Cid, type CidKey } from '../../content/index.ts'
import type { Want } from '../output.ts'
import type { PeerId } from '../peer.ts'
import { BitSet } from '../bit-set.ts'

/** A wanted block. */
export interface Wanted {
  readonly cid: Cid
  length: number | null
  urgency: number
  /** The number of peers that announced the block. */
  holders: number
  /** Peers that the block is requested from. There is more than one only in the endgame or after a timeout. */
  requestedFrom: PeerId[]
}

/** Wants that can be urgent at the same time. */
export const URGENT_MAX = 64

/** All wants. Each has a small number, which is reused when the want is gone. */
export class Wants {
  readonly #slots: (Wanted | null)[] = []
  readonly #free: number[] = []
  readonly #byCid = new Map<CidKey, number>()
  /** The numbers of all wants. */
  readonly live = new BitSet()
  /** Wants that are requested from no peer, grouped by urgency, the most urgent first. */
  readonly #open: { readonly urgency: number; readonly bits: BitSet }[] = []
  #openSize = 0
  /** Blocks to request before all others, in this order. They need not be wanted yet. */
  #urgent: readonly CidKey[] = []

  /** Adds a want, or updates it. Returns whether the block was not wanted before. */
  add(want: Want): boolean {
    const before = this.#byCid.get(want.cid.key)
    if (before !== undefined) {
      const wanted = this.get(before)
      wanted.length ??= want.length
      if (want.urgency > wanted.urgency) {
        const wasOpen = this.close(before)
        wanted.urgency = want.urgency
        if (wasOpen) this.reopen(before)
      }
      return false
    }
    const at = this.#free.pop() ?? this.#slots.push(null) - 1
    this.#byCid.set(want.cid.key, at)
    this.#slots[at] = { cid: want.cid, length: want.length, urgency: want.urgency, holders: 0, requestedFrom: [] }
    this.live.insert(at)
    this.reopen(at)
    return true
  }

  /** The want with this number. `null` if there is none. */
  findAt(at: number): Wanted | null {
    return this.#slots[at] ?? null
  }

  get(at: number): Wanted {
    const wanted = this.findAt(at)
    if (wanted === null) throw new Error(`no want has the number ${at}`)
    return wanted
  }

  /** The number of the want for this block. A want for another CID of the same hash counts too. */
  find(cid: Cid): number | null {
    const exactly = this.findExactly(cid)
    if (exactly !== null || this.size === 0) return exactly
    for (const name of otherCids(cid)) {
      const at = this.#byCid.get(name)
      if (at !== undefined) return at
    }
    return null
  }

  /** The number of the want for exactly this CID. */
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

  /** Sets the blocks to request first. */
  setUrgent(cids: readonly Cid[]): void {
    this.#urgent = cids.slice(0, URGENT_MAX).map(({ key }) => key)
  }

  /** The numbers of the urgent wants, in their order. */
  *urgent(): Generator<number, void> {
    for (const key of this.#urgent) {
      const at = this.#byCid.get(key)
      if (at !== undefined) yield at
    }
  }

  /** The position of a want among the urgent ones, from 0. `null` if it is not urgent. */
  urgentPlace(at: number): number | null {
    if (this.#urgent.length === 0) return null
    const place = this.#urgent.indexOf(this.get(at).cid.key)
    return place < 0 ? null : place
  }

  /** The want is requested from no peer. */
  reopen(at: number): void {
    if (this.#openOf(this.get(at).urgency).insert(at)) this.#openSize++
  }

  /** The want is requested from a peer. Returns whether it was open. */
  close(at: number): boolean {
    const wasOpen = this.#openOf(this.get(at).urgency).remove(at)
    if (wasOpen) this.#openSize--
    return wasOpen
  }

  isOpen(at: number): boolean {
    return this.get(at).requestedFrom.length === 0
  }

  /** The open wants by urgency, the most urgent first. */
  open(): readonly BitSet[] {
    return this.#open.filter(({ bits }) => bits.size > 0).map(({ bits }) => bits)
  }

  get openSize(): number {
    return this.#openSize
  }

  get size(): number {
    return this.live.size
  }

  #openOf(urgency: number): BitSet {
    const found = this.#open.find((each) => each.urgency === urgency)
    if (found !== undefined) return found.bits
    const bits = new BitSet()
    this.#open.push({ urgency, bits })
    this.#open.sort((a, b) => b.urgency - a.urgency)
    return bits
  }
}

/** Other common CIDs of a block with this hash. Stores compare hashes only. */
export function otherCids({ hash, digest, key }: Cid): CidKey[] {
  if (hash !== SHA2_256) return []
  return [RAW, DAG_PB].map((codec) => makeCid(1, codec, hash, digest).key).filter((name) => name !== key)
}
