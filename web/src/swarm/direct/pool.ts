import type { Millis } from '../api.ts'
import type { Line, MakeLine } from './line.ts'

/** Lines of a tab at once, over all its pages. */
export const LINES_MAX = 12
/**
 * Lines that the browser may still count. A closed one counts until it is collected, and browsers make no more than
 * some 500 for all tabs of a process.
 */
const UNCOLLECTED_MAX = 200
/** How long a line must have been idle before it is given up for another peer's. */
const IDLE_MIN: Millis = 10_000

/** Who holds a line. */
export interface Holder {
  /** Since when nothing moved over it; `null` while something is to be moved. */
  idleSince(): Millis | null
  /** Its line is needed elsewhere. */
  giveUp(): void
}

/** The lines that a tab may have. */
export class LinePool {
  readonly #make: MakeLine
  readonly #holders = new Map<Line, Holder>()
  #uncollected = 0
  readonly #collected = new FinalizationRegistry<void>(() => this.#uncollected--)

  constructor(make: MakeLine) {
    this.#make = make
  }

  get open(): number {
    return this.#holders.size
  }

  /** A new line, if need be in the place of the one that was idle for longest; `null` when there is none to be had. */
  take(now: Millis, holder: Holder, configuration: RTCConfiguration): Line | null {
    if (this.#holders.size >= LINES_MAX) this.#idlest(now)?.giveUp()
    if (this.#holders.size >= LINES_MAX || this.#uncollected >= UNCOLLECTED_MAX) return null
    try {
      const line = this.#make(configuration)
      this.#uncollected++
      this.#collected.register(line, undefined)
      this.#holders.set(line, holder)
      return line
    } catch {
      // The browser makes no more of them, or has been told to make none.
      return null
    }
  }

  /** Closes a line, and has room for another. */
  giveBack(line: Line): void {
    this.#holders.delete(line)
    line.close()
  }

  #idlest(now: Millis): Holder | null {
    let idlest: Holder | null = null
    let since = now - IDLE_MIN
    for (const holder of this.#holders.values()) {
      const idleSince = holder.idleSince()
      if (idleSince === null || idleSince > since) continue
      idlest = holder
      since = idleSince
    }
    return idlest
  }
}
