import { signal } from '@preact/signals'

/** The part of the Screen Wake Lock API that is used; tests have a fake one. */
export interface WakeLocks {
  request(type: 'screen'): Promise<{
    release(): Promise<void>
    addEventListener(event: 'release', listener: () => void): void
  }>
}

type Lock = Awaited<ReturnType<WakeLocks['request']>>

export interface WakeLockEnvironment {
  /** `null` where the browser has none. */
  readonly locks: WakeLocks | null
  readonly isVisible: () => boolean
}

/**
 * Keeps the screen on while that is wanted. The browser releases the lock of a hidden page, so `update` must be called
 * when the page is visible again. `update` also retries after a rejection, such as for a low battery.
 */
export class ScreenWakeLock {
  /** Whether the lock is held now. */
  readonly isHeld = signal(false)
  readonly #environment: WakeLockEnvironment
  #isWanted = false
  #isAsking = false
  #lock: Lock | null = null

  constructor(environment: WakeLockEnvironment) {
    this.#environment = environment
  }

  get isPossible(): boolean {
    return this.#environment.locks !== null
  }

  setWanted(isWanted: boolean): void {
    this.#isWanted = isWanted
    this.update()
  }

  /** Requests or releases the lock as needed. */
  update(): void {
    const { locks, isVisible } = this.#environment
    if (!this.#isWanted) {
      void this.#lock?.release().catch(() => undefined)
      return
    }
    if (locks === null || this.#lock !== null || this.#isAsking || !isVisible()) return
    this.#isAsking = true
    locks
      .request('screen')
      .then(
        (lock) => this.#take(lock),
        () => undefined,
      )
      .finally(() => {
        this.#isAsking = false
      })
  }

  #take(lock: Lock): void {
    this.#lock = lock
    this.isHeld.value = true
    lock.addEventListener('release', () => {
      this.#lock = null
      this.isHeld.value = false
    })
    // It may no longer be wanted by now.
    this.update()
  }
}
