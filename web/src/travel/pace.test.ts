import { describe, expect, it } from 'vitest'
import { Pace, Paces } from './pace.ts'

describe('a pace', () => {
  it('is what came in the last seconds, not in all', () => {
    const pace = new Pace()
    expect(pace.rate).toBe(0)
    for (let second = 0; second <= 10; second++) pace.note(second * 1000, second * 300)
    expect(pace.rate).toBe(300)
    for (let second = 11; second <= 20; second++) pace.note(second * 1000, 3000)
    expect(pace.rate).toBe(0)
  })

  it('keeps no more notes than it needs', () => {
    const pace = new Pace()
    pace.note(0, 0)
    pace.note(60_000, 6000)
    expect(pace.rate).toBe(100)
    pace.note(60_000, 6000)
    expect(pace.rate).toBe(100)
  })

  it('is kept apart for each peer, and forgotten with it', () => {
    const paces = new Paces()
    const at = (a: number, b: number) => new Map([['a', { receivedBytes: a, sentBytes: 0 }], ['b', { receivedBytes: 0, sentBytes: b }]])
    paces.note(0, at(0, 0))
    paces.note(1000, at(500, 70))
    expect([paces.of('a'), paces.of('b')]).toEqual([{ down: 500, up: 0 }, { down: 0, up: 70 }])
    paces.note(2000, new Map())
    expect(paces.of('a')).toEqual({ down: 0, up: 0 })
  })
})
