import type { PageProblem, PageState, Phase, Presence } from './api.ts'
import type { Clock, Millis } from './clock.ts'

/**
 * Bounds on the time between two notifications of changes that every block causes. It is a tenth of the time since the
 * page was opened: each one is drawn, and in a load of minutes nobody sees four changes a second.
 */
const NOTIFY_INTERVAL_MIN: Millis = 250
const NOTIFY_INTERVAL_MAX: Millis = 1000
const PROBLEMS_MAX = 8

/** Notifies the listener of a page's state: at once when its phase or presence changed, otherwise soon. */
export class StateNotifier {
  /** The latest problems, the newest last. */
  problems: readonly PageProblem[] = []
  readonly #clock: Clock
  readonly #state: () => PageState
  readonly #listener: (state: PageState) => void
  readonly #openedAt: Millis
  #notified: { phase: Phase; presence: Presence } = { phase: 'searching', presence: { kind: 'joining' } }
  #notifiedAt: Millis = -Infinity
  #stopTimer: (() => void) | null = null
  /** When the timer fires. */
  #timerAt: Millis = Infinity

  constructor(clock: Clock, state: () => PageState, listener: (state: PageState) => void) {
    this.#clock = clock
    this.#state = state
    this.#listener = listener
    this.#openedAt = clock.now()
  }

  addProblem(problem: PageProblem): void {
    this.problems = [...this.problems, problem].slice(-PROBLEMS_MAX)
  }

  /**
   * Something changed. `now` is called before the listener is notified. `isWatched`: the change is an entry of a live page. People
   * wait for it, so the listener is notified immediately, but not more often than every `NOTIFY_INTERVAL_MIN`.
   */
  notify(phase: Phase, presence: Presence, now: () => void, isWatched = false): void {
    if (phase !== this.#notified.phase || presence !== this.#notified.presence) {
      this.#notifyNow(now)
      return
    }
    const time = this.#clock.now()
    const interval = Math.min(NOTIFY_INTERVAL_MAX, Math.max(NOTIFY_INTERVAL_MIN, (time - this.#openedAt) / 10))
    const due = isWatched ? Math.max(time, this.#notifiedAt + NOTIFY_INTERVAL_MIN) : time + interval
    if (due >= this.#timerAt) return
    this.#stopTimer?.()
    this.#timerAt = due
    this.#stopTimer = this.#clock.after(due - time, () => this.#notifyNow(now))
  }

  /** Cancels the notification that is due. */
  stop(): void {
    this.#stopTimer?.()
  }

  #notifyNow(now: () => void): void {
    this.#stopTimer?.()
    this.#stopTimer = null
    this.#timerAt = Infinity
    this.#notifiedAt = this.#clock.now()
    now()
    const state = this.#state()
    this.#notified = { phase: state.phase, presence: state.presence }
    this.#listener(state)
  }
}
