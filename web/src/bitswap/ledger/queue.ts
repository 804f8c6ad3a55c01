import type { Cid } from '../../content/index.ts'

/** A place in the queue. */
export interface Place {
  readonly priority: number
  readonly nth: number
  readonly cid: Cid
}

/** Blocks to be sent to a peer, in the order in which it wants them. */
export class Queue {
  readonly #places: Place[] = []
  #next = 0

  get size(): number {
    return this.#places.length
  }

  /** Its number, by which it is found again. */
  push(priority: number, cid: Cid): number {
    const nth = this.#next++
    this.#insert({ priority, nth, cid })
    return nth
  }

  /** Whether it was in the queue. */
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

  first(max: number): readonly Place[] {
    return this.#places.slice(0, max)
  }

  #insert(place: Place): void {
    this.#places.splice(this.#find(place.priority, place.nth), 0, place)
  }

  /** Where this place is, or would be: higher priorities before lower, and of one priority who came first. */
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
