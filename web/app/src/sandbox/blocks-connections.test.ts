import { describe, expect, it } from 'vitest'
import { blocksConnections } from './blocks-connections.ts'

describe('the sandbox of a frame', () => {
  const chromium = (version: string) => ({ userAgentData: { brands: [{ brand: 'Chromium', version }] } })

  it('blocks every connection in Chromium since 152', () => {
    expect(blocksConnections(chromium('152'))).toBe(true)
    expect(blocksConnections(chromium('151'))).toBe(false)
  })

  it('is not assumed to block them in browsers that hide their version', () => {
    expect(blocksConnections({})).toBe(false)
    expect(blocksConnections(chromium('?'))).toBe(false)
  })
})
