/** Over how long a speed is taken: long enough not to jump, short enough to be of now. */
const SPAN_MS = 5000

/** How fast something that only grows is growing. */
export class Pace {
  /** Oldest first; all but the first are younger than the span. */
  readonly #notes: { at: number; bytes: number }[] = []

  note(at: number, bytes: number): void {
    this.#notes.push({ at, bytes })
    while (this.#notes.length > 2 && (this.#notes[1]?.at ?? at) <= at - SPAN_MS) this.#notes.shift()
  }

  /** Bytes a second. */
  get rate(): number {
    const [first, last] = [this.#notes[0], this.#notes.at(-1)]
    if (first === undefined || last === undefined || last.at <= first.at) return 0
    return Math.max(0, (last.bytes - first.bytes) / ((last.at - first.at) / 1000))
  }
}

export interface Pair {
  readonly receivedBytes: number
  readonly sentBytes: number
}

/** The paces of all who are there: both ways, by name. */
export class Paces {
  #paces = new Map<string, { down: Pace; up: Pace }>()

  /** Notes how everyone stands now, and forgets who is gone. */
  note(at: number, all: ReadonlyMap<string, Pair>): void {
    const before = this.#paces
    this.#paces = new Map()
    for (const [name, { receivedBytes, sentBytes }] of all) {
      const pace = before.get(name) ?? { down: new Pace(), up: new Pace() }
      pace.down.note(at, receivedBytes)
      pace.up.note(at, sentBytes)
      this.#paces.set(name, pace)
    }
  }

  of(name: string): { down: number; up: number } {
    const pace = this.#paces.get(name)
    return { down: pace?.down.rate ?? 0, up: pace?.up.rate ?? 0 }
  }
}
