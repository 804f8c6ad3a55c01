import { describe, expect, it } from 'vitest'
import { readLastLit } from './told.ts'

describe('when a dark page was last lit', () => {
  it('is told in seconds, and not by every server', () => {
    expect(readLastLit({ last_lit: 90 })).toBe(90_000)
    expect(readLastLit({ last_lit: 0 })).toBe(0)
    for (const told of [{}, { last_lit: null }, { last_lit: -1 }, { last_lit: 'yesterday' }, { last_lit: Infinity }, null, 7]) {
      expect(readLastLit(told)).toBe(null)
    }
  })
})
