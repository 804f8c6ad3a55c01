import { describe, expect, it } from 'vitest'
import { isWrapped, NO_NEIGHBOURS, readArrival, readNeighbours, readSlot } from './protocol.ts'

const arrival = { sprite: 'cat', picture: null, edge: 'left', at: 0.5, velocity: { x: 900, y: 0 } }

describe('an arrival', () => {
  it('is parsed, and unknown fields are ignored', () => {
    expect(readArrival({ ...arrival, from: 'b2d1' })).toEqual(arrival)
  })

  it('has the canonical CID of its picture, if it names one', () => {
    const cid = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
    expect(readArrival({ ...arrival, picture: cid })?.picture).toBe(cid)
    const otherwise = 'zb2rhmy65F3REf8SZp7De11gxtECBGgUKaLdiDj7MCGCHxbDW'
    expect(readArrival({ ...arrival, picture: otherwise })?.picture).toBe(cid)
    for (const picture of [7, '', 'cat.png', 'https://example.org/cat.png', 'b'.repeat(9_000)]) {
      expect(readArrival({ ...arrival, picture })).toEqual(arrival)
    }
  })

  it('that is not valid is null', () => {
    const bad = [null, 7, {}, { ...arrival, edge: 'front' }, { ...arrival, at: 2 }, { ...arrival, at: null }]
    const fast = [
      { ...arrival, velocity: { x: 'fast', y: 0 } },
      { ...arrival, velocity: null },
    ]
    for (const payload of [...bad, ...fast]) expect(readArrival(payload)).toBeNull()
  })
})

describe('neighbours', () => {
  it('are peer ids or null', () => {
    expect(readNeighbours({ left: 'a', right: null, up: 7 })).toEqual({ ...NO_NEIGHBOURS, left: 'a' })
    expect(readNeighbours('noise')).toEqual(NO_NEIGHBOURS)
    expect(readSlot({ token: 't', neighbours: {} })).toEqual({ token: 't', neighbours: NO_NEIGHBOURS })
  })
})

describe('a throw', () => {
  it('is wrapped only when the server says so', () => {
    expect([isWrapped({ wrapped: true }), isWrapped({}), isWrapped(null)]).toEqual([true, false, false])
  })
})
