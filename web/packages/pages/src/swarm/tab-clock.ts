import { startWorker } from '../browser/start-worker.ts'
import type { Clock } from './clock.ts'
import type { TimerRequest } from './timer-worker.ts'

/** The browser functions that a tab's clock uses. */
export interface Tab {
  now(): number
  isHidden(): boolean
  /** Calls back whenever the tab gets hidden. */
  onHidden(callback: () => void): void
  /** Starts timers that keep running while the tab is hidden, if there are workers. The returned function sets one of them. */
  startTimers(onFired: (id: number) => void): (alarm: TimerRequest) => void
}

/**
 * The clock of a tab. Browsers delay the timers of a hidden tab to once a second, later to once a minute. A person who
 * shares a page looks at other tabs, and the page's visitors must not wait. So while the tab is hidden, each timer also
 * runs in a worker. The worker is made when it is first needed.
 */
export function tabClock(tab: Tab): Clock {
  const alarms = new Map<number, { rings: () => void; at: number }>()
  let ids = 0
  let setTimer: ReturnType<Tab['startTimers']> | undefined

  const setInWorker = (id: number, at: number) => {
    setTimer ??= tab.startTimers((fired) => alarms.get(fired)?.rings())
    setTimer({ id, milliseconds: Math.max(0, at - tab.now()) })
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
  startTimers(onFired) {
    const started = startWorker(
      () => new Worker(new URL('./timer-worker.ts', import.meta.url), { type: 'module' }),
      'code:./timer-worker.ts',
    )
    // Without the worker, the timers of the tab fire, later.
    const use = (how: (worker: Worker) => void) => void started.then(how, () => {})
    use((worker) => {
      worker.onmessage = ({ data }: MessageEvent<number>) => onFired(data)
    })
    return (alarm) => use((worker) => worker.postMessage(alarm))
  },
})
