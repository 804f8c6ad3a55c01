import { describe, expect, it } from 'vitest'
import { readCounts, readIntroduction, readLastLit } from './told.ts'

describe('when a dark page was last lit', () => {
  it('is told in seconds, and not by every server', () => {
    expect(readLastLit({ last_lit: 90 })).toBe(90_000)
    expect(readLastLit({ last_lit: 0 })).toBe(0)
    for (const told of [{}, { last_lit: null }, { last_lit: -1 }, { last_lit: 'yesterday' }, { last_lit: Infinity }, null, 7]) {
      expect(readLastLit(told)).toBe(null)
    }
  })
})

describe('how many watch a page', () => {
  it('is told with how many of them are nodes, of whom nothing is said where there are none', () => {
    const counts = { watching: 3, holders: 1, partial: 0 }
    const none = { watching: 0, holders: 0, partial: 0 }
    expect(readCounts({ ...counts, nodes: counts })).toEqual({ ...counts, nodes: counts })
    for (const nodes of [undefined, null, 7, 'two', [], { watching: 1 }, { ...counts, partial: -1 }, { ...counts, holders: 0.5 }]) {
      expect(readCounts({ ...counts, nodes })).toEqual({ ...counts, nodes: none })
    }
    expect(readCounts({ watching: 3, nodes: counts })).toBe(null)
  })
})

describe('what a peer is', () => {
  it('is told of nodes; whatever else is said, it is a tab', () => {
    const peer = '00000000000000ab'
    expect(readIntroduction({ peer, have: 'all', kind: 'node' })).toEqual({ peer, have: 'all', kind: 'node' })
    for (const kind of [undefined, 'tab', 'Node', 'constructor', '<b>', 7, null, ['node'], { toString: 'node' }]) {
      expect(readIntroduction({ peer, have: 'some', kind })).toEqual({ peer, have: 'some', kind: 'tab' })
    }
  })
})
