import type { Velocity } from './throw.ts'

/** The last part of a drag, in milliseconds, that says how fast it was thrown. */
const FLICK_MS = 80

interface Sample {
  x: number
  y: number
  ms: number
}

/** How fast a finger or mouse moved when it let go. */
export class Flick {
  #samples: Sample[] = []

  begin(x: number, y: number, ms: number): void {
    this.#samples = [{ x, y, ms }]
  }

  move(x: number, y: number, ms: number): void {
    this.#samples = [...this.#samples.filter((sample) => sample.ms >= ms - FLICK_MS), { x, y, ms }]
  }

  /** Pixels a second, over the last moment before `ms`; none after a rest. */
  velocity(ms: number): Velocity {
    const [first, ...later] = this.#samples.filter((sample) => sample.ms >= ms - FLICK_MS)
    const last = later.at(-1)
    if (first === undefined || last === undefined || last.ms <= first.ms) return { x: 0, y: 0 }
    const seconds = (last.ms - first.ms) / 1_000
    return { x: (last.x - first.x) / seconds, y: (last.y - first.y) / seconds }
  }
}
