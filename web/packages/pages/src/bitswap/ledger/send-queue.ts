import type { Cid } from '../../content/index.ts'

export interface QueueEntry {
  readonly priority: number
  readonly nth: number
  readonly cid: Cid
}

/** Blocks to send to one peer, in the order of its priorities. */
export class SendQueue {
  readonly #places: QueueEntry[] = []
  #next = 0

  get size(): number {
    return this.#places.length
  }

  /** Returns a number by which the entry is found again. */
  push(priority: number, cid: Cid): number {
    const nth = this.#next++
    this.#insert({ priority, nth, cid })
    return nth
  }

  /** Returns whether the entry was in the queue. */
  remove(priority: number, nth: number): boolean {
    const at = this.#find(priority, nth)
    const place = this.#places[at]
    if (place?.priority !== priority || place.nth !== nth) return false
    this.#places.splice(at, 1)
    return true
  }

  move(from: number, to: number, nth: number, cid: Cid): void {
    if (this.remove(from, nth)) this.#insert({ priority: to, nth, cid })
  }

  first(max: number): readonly QueueEntry[] {
    return this.#places.slice(0, max)
  }

  #insert(place: QueueEntry): void {
    this.#places.splice(this.#find(place.priority, place.nth), 0, place)
  }

  /** The index of this entry, or where it would be inserted. Higher priorities come first, and then lower numbers. */
  #find(priority: number, nth: number): number {
    let low = 0
    let high = this.#places.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const place = this.#places[middle]
      const isBefore = place !== undefined && (place.priority > priority || (place.priority === priority && place.nth < nth))
      if (isBefore) low = middle + 1
      else high = middle
    }
    return low
  }
}
