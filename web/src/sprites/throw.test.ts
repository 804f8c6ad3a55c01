import { describe, expect, it } from 'vitest'
import { isWrapped, NOBODY, readArrival, readNeighbours, readPlace } from './throw.ts'

const arrival = { sprite: 'cat', edge: 'left', at: 0.5, velocity: { x: 900, y: 0 } }

describe('an arrival', () => {
  it('is read, and what else it carries is left out', () => {
    expect(readArrival({ ...arrival, from: 'b2d1' })).toEqual(arrival)
  })

  it('that makes no sense is nothing', () => {
    const bad = [null, 7, {}, { ...arrival, edge: 'front' }, { ...arrival, at: 2 }, { ...arrival, at: null }]
    const fast = [{ ...arrival, velocity: { x: 'fast', y: 0 } }, { ...arrival, velocity: null }]
    for (const payload of [...bad, ...fast]) expect(readArrival(payload)).toBeNull()
  })
})

describe('neighbours', () => {
  it('are ids or nobody', () => {
    expect(readNeighbours({ left: 'a', right: null, up: 7 })).toEqual({ ...NOBODY, left: 'a' })
    expect(readNeighbours('noise')).toEqual(NOBODY)
    expect(readPlace({ token: 't', neighbours: {} })).toEqual({ token: 't', neighbours: NOBODY })
  })
})

describe('a throw', () => {
  it('is wrapped only when the server says so', () => {
    expect([isWrapped({ wrapped: true }), isWrapped({}), isWrapped(null)]).toEqual([true, false, false])
  })
})
