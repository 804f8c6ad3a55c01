import { describe, expect, it } from 'vitest'
import { blocksWebRtc } from './blocks-webrtc.ts'

describe('the sandbox of a frame', () => {
  const chromium = (version: string) => ({ userAgentData: { brands: [{ brand: 'Chromium', version }] } })

  it('blocks WebRTC in Chromium since 152', () => {
    expect(blocksWebRtc(chromium('152'))).toBe(true)
    expect(blocksWebRtc(chromium('151'))).toBe(false)
  })

  it('is not assumed to block it in browsers that hide their version', () => {
    expect(blocksWebRtc({})).toBe(false)
    expect(blocksWebRtc(chromium('?'))).toBe(false)
  })
})
