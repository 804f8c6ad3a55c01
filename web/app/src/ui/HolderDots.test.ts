import { describe, expect, it } from 'vitest'
import { dotRow } from './HolderDots.tsx'

describe('the row of dots', () => {
  it('has one dot per tab, complete ones first, and marks this tab’s', () => {
    const row = dotRow({ watching: 4, holders: 1, partial: 2 }, 'some')
    expect(row.map(({ has }) => has)).toEqual(['all', 'some', 'some', 'none'])
    expect(row.map(({ own }) => own)).toEqual([false, true, false, false])
  })

  it('is bounded, whatever the server reports', () => {
    expect(dotRow({ watching: 1e9, holders: 1e9, partial: 0 }, 'all')).toHaveLength(24)
    expect(dotRow({ watching: -1, holders: 0, partial: 0 }, 'none')).toEqual([])
  })
})
