import { describe, expect, it } from 'vitest'
import type { PageState } from '../ui/site.ts'
import { availabilityOf } from './availability.ts'

const held: PageState = { kind: 'held', content: { kind: 'directory', files: [], links: 0 } }
const waiting: PageState = { kind: 'waiting', bytes: 0, total: null }
const copies = { own: 'all', holders: 1, isRejected: false } as const

describe('a page that is here', () => {
  const states: PageState[] = [held, { kind: 'locked', reason: null, coming: null }]

  it.each(states)('is available while the tab is connected: $kind', (state) => {
    expect(availabilityOf(state, copies)).toBe('available')
    expect(availabilityOf(state, { ...copies, holders: null })).toBe('loading')
  })

  it.each(states)('is unavailable when the server rejects it: $kind', (state) => {
    expect(availabilityOf(state, { ...copies, holders: null, isRejected: true })).toBe('unavailable')
  })

  it.each(states)('of which a file has changed is available only from others: $kind', (state) => {
    expect(availabilityOf(state, { ...copies, own: 'some', holders: 0 })).toBe('unavailable')
    expect(availabilityOf(state, { ...copies, own: 'some', holders: 1 })).toBe('available')
  })
})

describe('a page that is not here', () => {
  it('is unavailable while it waits for a holder, readable or not', () => {
    expect(availabilityOf(waiting, copies)).toBe('unavailable')
    expect(availabilityOf({ kind: 'locked', reason: null, coming: waiting }, copies)).toBe('unavailable')
  })
})
