import { signal } from '@preact/signals'

/** What we use of the browser's Screen Wake Lock; tests have pretend ones. */
export interface WakeLocks {
  request(type: 'screen'): Promise<{
    release(): Promise<void>
    addEventListener(event: 'release', listener: () => void): void
  }>
}

type Lock = Awaited<ReturnType<WakeLocks['request']>>

export interface Surroundings {
  /** `null` where the browser has none. */
  readonly locks: WakeLocks | null
  readonly isVisible: () => boolean
}

/**
 * Keeps the screen on while it is wanted. The browser lets go whenever the page is hidden, so `look` is to be called when
 * it is shown again. A browser that refuses, as with an empty battery, is asked again then.
 */
export class Wakefulness {
  /** Whether the screen is held on now. */
  readonly isHeld = signal(false)
  readonly #around: Surroundings
  #isWanted = false
  #isAsking = false
  #lock: Lock | null = null

  constructor(around: Surroundings) {
    this.#around = around
  }

  get isPossible(): boolean {
    return this.#around.locks !== null
  }

  want(isWanted: boolean): void {
    this.#isWanted = isWanted
    this.look()
  }

  /** Takes or gives back the lock, as things stand. */
  look(): void {
    const { locks, isVisible } = this.#around
    if (!this.#isWanted) {
      void this.#lock?.release().catch(() => undefined)
      return
    }
    if (locks === null || this.#lock !== null || this.#isAsking || !isVisible()) return
    this.#isAsking = true
    locks.request('screen').then((lock) => this.#take(lock), () => undefined).finally(() => {
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
    // It may not be wanted any more by now.
    this.look()
  }
}
