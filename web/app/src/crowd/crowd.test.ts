// @vitest-environment happy-dom
import { signal } from '@preact/signals'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ReadablePage } from '@watchfire/pages/encryption'
import type { SendToPeer } from '@watchfire/pages/swarm'
import type { Counts } from '../ui/sentences.ts'
import type { PageState } from '../ui/site.ts'
import { crowds, followCrowd, meetCrowd } from './crowds.ts'
import { Crowd } from './crowd.ts'
import { encodeMessage, historyOf, mostOf } from './history.ts'

type PeerId = Parameters<SendToPeer>[0]

beforeEach(() => {
  vi.useFakeTimers()
  sessionStorage.clear()
})
afterEach(() => {
  crowds.clear()
  vi.useRealTimers()
})

/** Tabs that all have each other as peers. */
function tabsOf(...names: string[]) {
  const tabs = new Map<string, Crowd>()
  /** The messages so far, as `from to`. */
  const messages: string[] = []
  const add = (name: string) => {
    const others = () => [...tabs.keys()].filter((other) => other !== name) as PeerId[]
    const send: SendToPeer = (to, message) => {
      messages.push(`${name} ${to}`)
      tabs.get(to)?.receive(name as PeerId, message)
    }
    const tab = new Crowd(name, others, send)
    tabs.set(name, tab)
    tab.note(tabs.size)
    return tab
  }
  for (const name of names) add(name)
  return { tabs, add, messages, note: (people: number) => [...tabs.values()].map((tab) => tab.note(people)) }
}

const seconds = (count: number) => vi.advanceTimersByTime(count * 1000)
const alone = (cid: string) =>
  new Crowd(
    cid,
    () => [],
    () => {},
  )
/** A message with these numbers. */
const told = (...numbers: number[]) => {
  const history = historyOf(numbers)
  if (history === null) throw new Error('not a history')
  return encodeMessage(history)
}
const old = () => told(1000, ...Array<number>(51).fill(7))

describe('the crowd of a page', () => {
  it('is told to a tab that comes late, with the age of the page', () => {
    const { add, note, messages } = tabsOf('author')
    seconds(60)
    note(14)
    seconds(60)
    note(1)
    seconds(600)
    const late = add('late')
    expect(messages).toEqual(['late author', 'author late'])
    expect(late.history.age).toBe(720)
    expect(mostOf(late.history)).toBe(14)
  })

  it('is told once to each peer while nobody knows more', () => {
    const { add, messages, note } = tabsOf('a', 'b', 'c')
    note(3)
    seconds(40)
    messages.length = 0
    add('d')
    note(4)
    seconds(3600)
    // The late one tells all, each of which answers; then all know the same.
    expect(messages.filter((message) => message.includes('d')).length).toBeLessThanOrEqual(6)
    expect(messages.filter((message) => !message.includes('d'))).toEqual([])
  })

  it('is passed on to peers that have not met the tab that knew it, at most every 30 seconds', () => {
    const { tabs, messages } = tabsOf('a', 'b')
    seconds(60)
    const a = tabs.get('a') as Crowd
    messages.length = 0
    a.receive('stranger' as PeerId, old())
    seconds(30)
    expect(messages).toEqual(['a b'])
    expect(tabs.get('b')?.history.age).toBeGreaterThanOrEqual(1000)
    expect(mostOf((tabs.get('b') as Crowd).history)).toBe(7)
  })

  it('answers a peer that asks without end once in 30 seconds', () => {
    const sent: string[] = []
    const crowd = new Crowd(
      'page',
      () => [],
      (to) => sent.push(to),
    )
    crowd.note(5)
    seconds(20)
    for (let i = 0; i < 1000; i++) crowd.receive('peer' as PeerId, told(0, 1))
    expect(sent).toEqual(['peer'])
    seconds(30)
    crowd.receive('peer' as PeerId, told(0, 1))
    expect(sent).toEqual(['peer', 'peer'])
  })

  it('does not change by invalid messages', () => {
    const crowd = alone('page')
    crowd.note(2)
    const before = crowd.history
    for (const bytes of [[], [0x0a, 0], [0x0a, 0, 0xda, 0x3e], [0x0a, 0, 0xda, 0x3e, 1, 0x5b]])
      crowd.receive('peer' as PeerId, Uint8Array.from(bytes))
    expect(crowd.history).toEqual(before)
  })

  it('has a gap while this tab has lost the server', () => {
    const crowd = alone('page')
    crowd.note(2)
    seconds(10)
    crowd.note(0)
    seconds(20)
    crowd.note(1)
    seconds(5)
    expect(crowd.history.people).toEqual([2, 2, 2, 0, 0, 0, 1, 1])
  })

  it('has a gap for the time in which the machine slept', () => {
    const crowd = alone('page')
    crowd.note(50)
    seconds(60)
    // The clock of the machine goes on, and the timers of the tab do not.
    vi.setSystemTime(Date.now() + 8 * 3_600_000)
    seconds(30)
    crowd.note(1)
    const { age, people } = crowd.history
    expect(age).toBeCloseTo(8 * 3600 + 90, 0)
    expect(people[0]).toBe(50)
    expect(people.slice(1, -1).some((count) => count > 0)).toBe(false)
  })

  it('does not grow old when the clock of the machine was wrong before a reload', () => {
    vi.setSystemTime(0)
    const crowd = alone('page')
    crowds.set('page', crowd)
    crowd.note(6)
    dispatchEvent(new Event('pagehide'))
    crowds.clear()
    vi.setSystemTime(Date.UTC(2026, 0))
    expect(alone('page').history.age).toBe(0)
  })

  it('is there after a reload of the only tab', () => {
    const crowd = alone('page')
    crowds.set('page', crowd)
    crowd.note(6)
    seconds(60)
    dispatchEvent(new Event('pagehide'))
    crowds.clear()
    seconds(10)
    const again = alone('page')
    again.note(1)
    expect(again.history.age).toBeCloseTo(70, 1)
    expect(mostOf(again.history)).toBe(6)
    expect(alone('another').history.age).toBe(0)
    sessionStorage.setItem('watchfire:crowds', '[1,["page",["nonsense"]]]')
    expect(alone('page').history.age).toBe(0)
  })
})

describe('the viewers of a page that is open', () => {
  it('are followed once the page is shown, and until it is closed', async () => {
    const state = signal<PageState>({ kind: 'joining' })
    const counts = signal<Counts | null>({ watching: 3, holders: 1, partial: 0, nodes: { watching: 1, holders: 1, partial: 0 } })
    const sent: string[] = []
    const receive = meetCrowd('page', (to) => sent.push(to))
    receive('early' as PeerId, old())
    const page = {
      root: 'page',
      state: {
        peers: [
          { id: 'tab', kind: 'tab' },
          { id: 'terminal', kind: 'node' },
        ],
      },
    }
    const stop = followCrowd(page as unknown as ReadablePage, { state, counts })
    expect(crowds.size).toBe(0)
    state.value = { kind: 'locked', reason: null, coming: null }
    vi.useRealTimers()
    await vi.waitFor(() => expect(crowds.get('page')?.people).toBe(2))
    expect(sent).toEqual(['tab'])
    receive('peer' as PeerId, old())
    expect(mostOf(crowds.get('page')?.history ?? { age: 0, people: [] })).toBe(7)
    counts.value = null
    expect(crowds.get('page')?.people).toBe(0)
    stop()
    expect(crowds.size).toBe(0)
    receive('peer' as PeerId, told(0, 1))
  })
})
