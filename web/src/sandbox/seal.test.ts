import { describe, expect, it } from 'vitest'
import { sealsConnections } from './seal.ts'

describe('the seal of a frame', () => {
  const chromium = (version: string) => ({ userAgentData: { brands: [{ brand: 'Chromium', version }] } })

  it('closes connections in Chromium since 152', () => {
    expect(sealsConnections(chromium('152'))).toBe(true)
    expect(sealsConnections(chromium('151'))).toBe(false)
  })

  it('is not claimed for browsers that do not say what they are', () => {
    expect(sealsConnections({})).toBe(false)
    expect(sealsConnections(chromium('?'))).toBe(false)
  })
})
