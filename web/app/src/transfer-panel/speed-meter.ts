/** The time over which a speed is measured: long enough to be stable, short enough to be current. */
const SPAN_MS = 5000

/** Measures how fast a number grows. */
export class SpeedMeter {
  /** Samples, the oldest first. All but the first are younger than the span. */
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

export interface ByteCounts {
  readonly receivedBytes: number
  readonly sentBytes: number
}

/** The speeds of all peers, in both directions, by id. */
export class SpeedMeters {
  #meters = new Map<string, { down: SpeedMeter; up: SpeedMeter }>()

  /** Adds a sample for each peer. Peers that are gone are forgotten. */
  note(at: number, all: ReadonlyMap<string, ByteCounts>): void {
    const before = this.#meters
    this.#meters = new Map()
    for (const [name, { receivedBytes, sentBytes }] of all) {
      const meter = before.get(name) ?? { down: new SpeedMeter(), up: new SpeedMeter() }
      meter.down.note(at, receivedBytes)
      meter.up.note(at, sentBytes)
      this.#meters.set(name, meter)
    }
  }

  of(name: string): { down: number; up: number } {
    const meter = this.#meters.get(name)
    return { down: meter?.down.rate ?? 0, up: meter?.up.rate ?? 0 }
  }
}
