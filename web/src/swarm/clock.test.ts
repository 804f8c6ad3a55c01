import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { browserClock, tabClock, type Tab } from './clock.ts'
import type { Alarm } from './ticker.ts'

let alarms: Alarm[]
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
    makeTicker: () => {
      workers++
      return { set: (alarm) => alarms.push(alarm), onRing: (callback) => (ring = callback) }
    },
  }
})
afterEach(() => vi.useRealTimers())

describe('the clock of a tab', () => {
  it('rings by itself while the tab is seen', () => {
    const rung: string[] = []
    const clock = tabClock(tab)
    clock.after(50, () => rung.push('a'))
    const forget = clock.after(60, () => rung.push('b'))
    forget()
    vi.advanceTimersByTime(100)
    expect(rung).toEqual(['a'])
    expect(workers).toBe(0)
  })

  it('is rung by a worker while the tab is hidden, and only once', () => {
    const rung: string[] = []
    const clock = tabClock(tab)
    clock.after(1000, () => rung.push('set before'))
    vi.advanceTimersByTime(400)
    hide()
    clock.after(50, () => rung.push('set after'))
    expect(alarms).toEqual([{ id: 0, milliseconds: 600 }, { id: 1, milliseconds: 50 }])
    ring(1)
    ring(0)
    ring(0)
    vi.advanceTimersByTime(5000)
    expect(rung).toEqual(['set after', 'set before'])
    expect(workers).toBe(1)
  })

  it('does without a worker where there is none', () => {
    const rung: string[] = []
    hidden = true
    const clock = tabClock({ ...tab, makeTicker: () => null })
    clock.after(50, () => rung.push('late perhaps'))
    vi.advanceTimersByTime(50)
    expect(rung).toEqual(['late perhaps'])
  })

  it('tells the time even where there is no document', () => {
    expect(browserClock.now()).toBeTypeOf('number')
  })
})
