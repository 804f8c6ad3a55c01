import { describe, expect, it } from 'vitest'
import { percentOf, sizeText } from './index.ts'

describe('a size', () => {
  it('is formatted for people', () => {
    expect(sizeText(0)).toBe('0 bytes')
    expect(sizeText(1)).toBe('1 byte')
    expect(sizeText(1023)).toBe('1023 bytes')
    expect(sizeText(1536)).toBe('1.5 KiB')
    expect(sizeText(200 * 1024 * 1024)).toBe('200 MiB')
    expect(sizeText(536_870_912)).toBe('512 MiB')
  })

  it('uses the next unit instead of 1024', () => {
    expect(sizeText(1024 * 1024 - 1)).toBe('1 MiB')
  })
})

describe('a percentage', () => {
  it('is 100 only when everything is here', () => {
    expect(percentOf(999_999, 1_000_000)).toBe(99)
    expect(percentOf(1_000_000, 1_000_000)).toBe(100)
    expect(percentOf(0, 10)).toBe(0)
  })

  it('of nothing is 100', () => {
    expect(percentOf(0, 0)).toBe(100)
  })
})
