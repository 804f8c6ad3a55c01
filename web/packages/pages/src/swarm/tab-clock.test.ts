import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { browserClock, tabClock, type Tab } from './tab-clock.ts'
import type { TimerRequest } from './timer-worker.ts'

let alarms: TimerRequest[]
let ring: (id: number) => void
let hide: () => void
let hidden: boolean
let workers: number
let tab: Tab
beforeEach(() => {
  vi.useFakeTimers()
  alarms = []
  hidden = false
  workers = 0
  tab = {
    now: () => Date.now(),
    isHidden: () => hidden,
    onHidden: (callback) => {
      hide = () => {
        hidden = true
        callback()
      }
    },
    startTimers: (onFired) => {
      workers++
      ring = onFired
      return (alarm) => alarms.push(alarm)
    },
  }
})
afterEach(() => vi.useRealTimers())

describe('the clock of a tab', () => {
  it('fires timers itself while the tab is visible', () => {
    const rung: string[] = []
    const clock = tabClock(tab)
    clock.after(50, () => rung.push('a'))
    const forget = clock.after(60, () => rung.push('b'))
    forget()
    vi.advanceTimersByTime(100)
    expect(rung).toEqual(['a'])
    expect(workers).toBe(0)
  })

  it('fires timers through a worker while the tab is hidden, and only once', () => {
    const rung: string[] = []
    const clock = tabClock(tab)
    clock.after(1000, () => rung.push('set before'))
    vi.advanceTimersByTime(400)
    hide()
    clock.after(50, () => rung.push('set after'))
    expect(alarms).toEqual([
      { id: 0, milliseconds: 600 },
      { id: 1, milliseconds: 50 },
    ])
    ring(1)
    ring(0)
    ring(0)
    vi.advanceTimersByTime(5000)
    expect(rung).toEqual(['set after', 'set before'])
    expect(workers).toBe(1)
  })

  it('works without a worker if there is none', () => {
    const rung: string[] = []
    hidden = true
    const clock = tabClock({ ...tab, startTimers: () => () => undefined })
    clock.after(50, () => rung.push('late perhaps'))
    vi.advanceTimersByTime(50)
    expect(rung).toEqual(['late perhaps'])
  })

  it('works without a document', () => {
    expect(browserClock.now()).toBeTypeOf('number')
  })
})
