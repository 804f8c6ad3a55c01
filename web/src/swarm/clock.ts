import type { Clock } from './api.ts'
import type { Alarm } from './ticker.ts'

/** Time that keeps running while its tab is hidden. */
export interface Ticker {
  set(alarm: Alarm): void
  onRing(callback: (id: number) => void): void
}

/** What a tab's clock needs of its tab. */
export interface Tab {
  now(): number
  isHidden(): boolean
  /** Calls back whenever the tab gets hidden. */
  onHidden(callback: () => void): void
  /** `null` where there are no workers. */
  makeTicker(): Ticker | null
}

/**
 * The time of a tab. Browsers let a hidden tab's timers ring once a second, later once a minute; but who shares a page
 * looks at other tabs, and its visitors must not wait for that. So while hidden, each timer also runs in a worker, which
 * is made when it is first needed.
 */
export function tabClock(tab: Tab): Clock {
  const alarms = new Map<number, { rings: () => void; at: number }>()
  let ids = 0
  let ticker: Ticker | null | undefined

  const setInWorker = (id: number, at: number) => {
    if (ticker === undefined) {
      ticker = tab.makeTicker()
      ticker?.onRing((rung) => alarms.get(rung)?.rings())
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

/** The time of this tab, one for all pages open in it. */
export const browserClock: Clock = tabClock({
  now: () => performance.now(),
  isHidden: () => globalThis.document?.visibilityState === 'hidden',
  onHidden(callback) {
    globalThis.document?.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'hidden') callback()
    })
  },
  makeTicker() {
    try {
      const worker = new Worker(new URL('./ticker.ts', import.meta.url), { type: 'module' })
      return {
        set: (alarm) => worker.postMessage(alarm),
        onRing: (callback) => worker.addEventListener('message', ({ data }: MessageEvent<number>) => callback(data)),
      }
    } catch {
      return null
    }
  },
})
