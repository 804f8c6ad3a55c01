import { describe, expect, it } from 'vitest'
import { readCounts, readJoinReply, readPeerInfo, readLastAvailable } from './server-messages.ts'

describe('the time since a page was last available', () => {
  it('is read in seconds, and may be absent', () => {
    expect(readLastAvailable({ last_available: 90 })).toBe(90_000)
    expect(readLastAvailable({ last_available: 0 })).toBe(0)
    for (const payload of [
      {},
      { last_available: null },
      { last_available: -1 },
      { last_available: 'yesterday' },
      { last_available: Infinity },
      null,
      7,
    ]) {
      expect(readLastAvailable(payload)).toBe(null)
    }
  })
})

describe('the STUN server', () => {
  const read = (stun: unknown) => readJoinReply({ stun }).stun
  it('has a port, and may have a second one', () => {
    expect(read({ port: 3478 })).toEqual({ host: null, port: 3478, secondPort: null })
    expect(read({ host: 'stun.example.org', port: 3478, second_port: 3479 })).toEqual({
      host: 'stun.example.org',
      port: 3478,
      secondPort: 3479,
    })
    for (const second of [0, -1, 65_536, 1.5, '3479', null, {}]) {
      expect(read({ port: 3478, second_port: second })?.secondPort).toBe(null)
    }
    for (const none of [null, {}, { port: 0 }, { second_port: 3479 }]) expect(read(none)).toBe(null)
  })
})

describe('the counts of a page', () => {
  it('include nodes, which the server leaves out if there are none', () => {
    const counts = { watching: 3, holders: 1, partial: 0 }
    const none = { watching: 0, holders: 0, partial: 0 }
    expect(readCounts({ ...counts, nodes: counts })).toEqual({ ...counts, nodes: counts })
    for (const nodes of [undefined, null, 7, 'two', [], { watching: 1 }, { ...counts, partial: -1 }, { ...counts, holders: 0.5 }]) {
      expect(readCounts({ ...counts, nodes })).toEqual({ ...counts, nodes: none })
    }
    expect(readCounts({ watching: 3, nodes: counts })).toBe(null)
  })
})

describe('the kind of a peer', () => {
  it('is node if the server says so, and tab for any other value', () => {
    const peer = '00000000000000ab'
    expect(readPeerInfo({ peer, have: 'all', kind: 'node' })).toEqual({ peer, have: 'all', kind: 'node' })
    for (const kind of [undefined, 'tab', 'Node', 'constructor', '<b>', 7, null, ['node'], { toString: 'node' }]) {
      expect(readPeerInfo({ peer, have: 'some', kind })).toEqual({ peer, have: 'some', kind: 'tab' })
    }
  })
})
