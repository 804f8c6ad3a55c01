import type { Clock, Millis, PageProblem, PageState, Phase, Presence } from './api.ts'

/** Between two reports of anything that changes with every block. */
const REPORT_INTERVAL: Millis = 100
const PROBLEMS_MAX = 8

/** Tells whoever wants to know how a page stands: at once when its standing changed, otherwise soon. */
export class Reports {
  /** The latest, newest last. */
  problems: readonly PageProblem[] = []
  readonly #clock: Clock
  readonly #state: () => PageState
  readonly #listeners = new Set<(state: PageState) => void>()
  #reported: { phase: Phase; presence: Presence }
  #stopReport: (() => void) | null = null
  #isClosed = false

  constructor(clock: Clock, state: () => PageState, first: { phase: Phase; presence: Presence }) {
    this.#clock = clock
    this.#state = state
    this.#reported = first
  }

  subscribe(listener: (state: PageState) => void): () => void {
    this.#listeners.add(listener)
    listener(this.#state())
    return () => this.#listeners.delete(listener)
  }

  note(problem: PageProblem): void {
    this.problems = [...this.problems, problem].slice(-PROBLEMS_MAX)
  }

  /** Something changed. `now` is called before the listeners are told. */
  report(phase: Phase, presence: Presence, now: () => void): void {
    if (this.#isClosed) return
    if (phase !== this.#reported.phase || presence !== this.#reported.presence) {
      this.#reportNow(now)
      return
    }
    this.#stopReport ??= this.#clock.after(REPORT_INTERVAL, () => this.#reportNow(now))
  }

  close(): void {
    this.#isClosed = true
    this.#stopReport?.()
    this.#listeners.clear()
  }

  #reportNow(now: () => void): void {
    this.#stopReport?.()
    this.#stopReport = null
    now()
    const state = this.#state()
    this.#reported = { phase: state.phase, presence: state.presence }
    for (const listener of this.#listeners) listener(state)
  }
}
