import { describe, expect, it } from 'vitest'
import { SpeedMeter, SpeedMeters } from './speed-meter.ts'

describe('a meter', () => {
  it('measures the last seconds only', () => {
    const meter = new SpeedMeter()
    expect(meter.rate).toBe(0)
    for (let second = 0; second <= 10; second++) meter.note(second * 1000, second * 300)
    expect(meter.rate).toBe(300)
    for (let second = 11; second <= 20; second++) meter.note(second * 1000, 3000)
    expect(meter.rate).toBe(0)
  })

  it('keeps no more samples than needed', () => {
    const meter = new SpeedMeter()
    meter.note(0, 0)
    meter.note(60_000, 6000)
    expect(meter.rate).toBe(100)
    meter.note(60_000, 6000)
    expect(meter.rate).toBe(100)
  })

  it('is separate for each peer, and forgotten with it', () => {
    const meters = new SpeedMeters()
    const at = (a: number, b: number) =>
      new Map([
        ['a', { receivedBytes: a, sentBytes: 0 }],
        ['b', { receivedBytes: 0, sentBytes: b }],
      ])
    meters.note(0, at(0, 0))
    meters.note(1000, at(500, 70))
    expect([meters.of('a'), meters.of('b')]).toEqual([
      { down: 500, up: 0 },
      { down: 0, up: 70 },
    ])
    meters.note(2000, new Map())
    expect(meters.of('a')).toEqual({ down: 0, up: 0 })
  })
})
