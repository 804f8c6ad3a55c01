import type { Clock } from './clock.ts'
import type { TimerRequest } from './timer-worker.ts'

/** A timer that keeps running while its tab is hidden. */
export interface TimerWorker {
  set(alarm: TimerRequest): void
  onFired(callback: (id: number) => void): void
}

/** The browser functions that a tab's clock uses. */
export interface Tab {
  now(): number
  isHidden(): boolean
  /** Calls back whenever the tab gets hidden. */
  onHidden(callback: () => void): void
  /** `null` if there are no workers. */
  makeTimerWorker(): TimerWorker | null
}

/**
 * The clock of a tab. Browsers delay the timers of a hidden tab to once a second, later to once a minute. A person who
 * shares a page looks at other tabs, and the page's visitors must not wait. So while the tab is hidden, each timer also
 * runs in a worker. The worker is made when it is first needed.
 */
export function tabClock(tab: Tab): Clock {
  const alarms = new Map<number, { rings: () => void; at: number }>()
  let ids = 0
  let ticker: TimerWorker | null | undefined

  const setInWorker = (id: number, at: number) => {
    if (ticker === undefined) {
      ticker = tab.makeTimerWorker()
      ticker?.onFired((rung) => alarms.get(rung)?.rings())
    }
    ticker?.set({ id, milliseconds: Math.max(0, at - tab.now()) })
  }
  tab.onHidden(() => {
    for (const [id, { at }] of alarms) setInWorker(id, at)
  })

  return {
    now: () => tab.now(),
    after(milliseconds, callback) {
      const id = ids++
      const at = tab.now() + milliseconds
      const forget = () => {
        clearTimeout(timer)
        alarms.delete(id)
      }
      const rings = () => {
        forget()
        callback()
      }
      const timer = setTimeout(rings, milliseconds)
      alarms.set(id, { rings, at })
      if (tab.isHidden()) setInWorker(id, at)
      return forget
    },
  }
}

/** The clock of this tab, shared by all pages that are open in it. */
export const browserClock: Clock = tabClock({
  now: () => performance.now(),
  isHidden: () => globalThis.document?.visibilityState === 'hidden',
  onHidden(callback) {
    globalThis.document?.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'hidden') callback()
    })
  },
  makeTimerWorker() {
    try {
      const worker = new Worker(new URL('./timer-worker.ts', import.meta.url), { type: 'module' })
      return {
        set: (alarm) => worker.postMessage(alarm),
        onFired: (callback) => worker.addEventListener('message', ({ data }: MessageEvent<number>) => callback(data)),
      }
    } catch {
      return null
    }
  },
})
