import type { Velocity } from './protocol.ts'

/** The last part of a drag that determines the speed of the throw, in milliseconds. */
const DRAG_WINDOW_MS = 80

interface Sample {
  x: number
  y: number
  ms: number
}

/** The velocity of a pointer when it is released. */
export class DragVelocity {
  #samples: Sample[] = []

  begin(x: number, y: number, ms: number): void {
    this.#samples = [{ x, y, ms }]
  }

  move(x: number, y: number, ms: number): void {
    this.#samples = [...this.#samples.filter((sample) => sample.ms >= ms - DRAG_WINDOW_MS), { x, y, ms }]
  }

  /** Pixels per second over the last moment before `ms`; zero after a pause. */
  velocity(ms: number): Velocity {
    const [first, ...later] = this.#samples.filter((sample) => sample.ms >= ms - DRAG_WINDOW_MS)
    const last = later.at(-1)
    if (first === undefined || last === undefined || last.ms <= first.ms) return { x: 0, y: 0 }
    const seconds = (last.ms - first.ms) / 1_000
    return { x: (last.x - first.x) / seconds, y: (last.y - first.y) / seconds }
  }
}
