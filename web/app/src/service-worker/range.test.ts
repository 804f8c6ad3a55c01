import { describe, expect, it } from 'vitest'
import { parseRange } from './range.ts'

describe('a Range header', () => {
  it('is parsed as RFC 9110 says', () => {
    expect(parseRange('bytes=0-', 1000)).toEqual({ from: 0, to: 1000 })
    expect(parseRange('bytes=10-19', 1000)).toEqual({ from: 10, to: 20 })
    expect(parseRange('bytes=990-5000', 1000)).toEqual({ from: 990, to: 1000 })
    expect(parseRange('bytes=-100', 1000)).toEqual({ from: 900, to: 1000 })
    expect(parseRange('bytes=-5000', 1000)).toEqual({ from: 0, to: 1000 })
  })

  it('beyond the end is unsatisfiable', () => {
    for (const header of ['bytes=1000-', 'bytes=5000-6000', 'bytes=-0']) expect(parseRange(header, 1000)).toBe('unsatisfiable')
    expect(parseRange('bytes=0-', 0)).toBe('unsatisfiable')
  })

  it('that is malformed or multiple means the whole file', () => {
    for (const header of [null, '', 'bytes=-', 'bytes=5-2', 'bytes=0-1,5-6', 'lines=1-2', 'bytes=a-b']) {
      expect(parseRange(header, 1000)).toBe(null)
    }
  })
})
