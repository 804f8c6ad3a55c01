/**
 * Runs a task again and again while the document is visible. It waits a period between the end of one run and the next: a
 * timer with a fixed period would send a slow server more requests than it answers.
 */
export class Poller {
  #task
  #periodMs
  /** @type {number | undefined} */
  #timer
  /** @type {AbortController | null} */
  #abort = null
  #isStarted = false

  /** The task gets a signal that aborts when the poller stops or starts over. It handles its own errors. */
  constructor(task, periodMs) {
    this.#task = task
    this.#periodMs = periodMs
    document.addEventListener('visibilitychange', () => this.#isStarted && !document.hidden && this.now())
  }

  start() {
    if (this.#isStarted) return
    this.#isStarted = true
    this.now()
  }

  stop() {
    this.#isStarted = false
    this.#abort?.abort()
    clearTimeout(this.#timer)
  }

  /** Runs at once, instead of the run that is in progress. */
  now() {
    if (!this.#isStarted) return
    this.#abort?.abort()
    clearTimeout(this.#timer)
    const abort = new AbortController()
    this.#abort = abort
    void this.#run(abort.signal)
  }

  async #run(signal) {
    await this.#task(signal)
    if (signal.aborted || document.hidden) return
    this.#timer = setTimeout(() => this.now(), this.#periodMs)
  }
}
