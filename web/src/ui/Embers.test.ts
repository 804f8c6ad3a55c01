import { describe, expect, it } from 'vitest'
import { emberRow } from './Embers.tsx'

describe('the row of embers', () => {
  it('has one for each tab, the full ones first, and marks this tab’s', () => {
    const row = emberRow({ watching: 4, holders: 1, partial: 2 }, 'some')
    expect(row.map(({ has }) => has)).toEqual(['all', 'some', 'some', 'none'])
    expect(row.map(({ own }) => own)).toEqual([false, true, false, false])
  })

  it('is bounded, whatever the server says', () => {
    expect(emberRow({ watching: 1e9, holders: 1e9, partial: 0 }, 'all')).toHaveLength(24)
    expect(emberRow({ watching: -1, holders: 0, partial: 0 }, 'none')).toEqual([])
  })
})
