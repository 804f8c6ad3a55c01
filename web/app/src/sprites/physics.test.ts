import { describe, expect, it } from 'vitest'
import type { Crossing } from './protocol.ts'
import { RADIUS, SPRITES_MAX, STEP_S, THROW_SPEED, Physics } from './physics.ts'

/** Steps until everything rests; returns the sprites that left. */
function settle(physics: Physics): Crossing[] {
  const gone: Crossing[] = []
  for (let steps = 0; physics.isAwake; steps++) {
    if (steps > 10_000) throw new Error('it never rests')
    gone.push(...physics.step())
  }
  return gone
}

describe('a sprite', () => {
  it('comes to rest, and then needs no computation', () => {
    const physics = new Physics(800, 600)
    const body = physics.put('cat', 400, 300)
    physics.push(body, { x: 100, y: 0 })
    expect(settle(physics)).toEqual([])
    expect(body.x).toBeGreaterThan(420)
    expect([body.vx, body.isAsleep]).toEqual([0, true])
  })

  it('leaves over an edge with its position and velocity', () => {
    const physics = new Physics(800, 600)
    const body = physics.put('cat', 700, 150)
    physics.push(body, { x: 1_500, y: 0 })
    const [crossing, ...others] = settle(physics)
    expect(others).toEqual([])
    expect(crossing).toMatchObject({ sprite: 'cat', picture: null, edge: 'right', at: 0.25 })
    expect(crossing?.velocity.x).toBeGreaterThan(THROW_SPEED)
    expect(physics.bodies).toEqual([])
  })

  it('bounces off an edge that it only rolls against', () => {
    const physics = new Physics(800, 600)
    const body = physics.put('cat', 740, 150)
    physics.push(body, { x: THROW_SPEED - 50, y: 0 })
    expect(settle(physics)).toEqual([])
    expect(body.x).toBeLessThanOrEqual(800 - RADIUS)
  })

  it('enters at each edge at any speed, and stays inside', () => {
    const speeds = { left: [1, 0], right: [-1, 0], up: [0, 1], down: [0, -1] } as const
    for (const edge of ['left', 'right', 'up', 'down'] as const) {
      for (const [width, height] of [
        [800, 600],
        [360, 640],
        [2_560, 1_440],
      ] as const) {
        for (const speed of [0, 500, 100_000]) {
          const [x, y] = speeds[edge]
          const physics = new Physics(width, height)
          const body = physics.enter({ sprite: 'cat', picture: null, edge, at: 0.5, velocity: { x: x * speed, y: y * speed } })
          expect(settle(physics)).toEqual([])
          expect(body.x).toBeGreaterThanOrEqual(RADIUS)
          expect(body.x).toBeLessThanOrEqual(width - RADIUS)
          expect(body.y).toBeGreaterThanOrEqual(RADIUS)
          expect(body.y).toBeLessThanOrEqual(height - RADIUS)
          expect(body.over).toBeNull()
        }
      }
    }
  })

  it('pushes another one away instead of overlapping it', () => {
    const physics = new Physics(800, 600)
    const hit = physics.put('kite', 500, 300)
    const body = physics.put('cat', 300, 300)
    physics.push(body, { x: 500, y: 0 })
    settle(physics)
    expect(hit.x).toBeGreaterThan(501)
    expect(Math.hypot(hit.x - body.x, hit.y - body.y)).toBeGreaterThanOrEqual(2 * RADIUS - 1)
  })

  it('stays inside when the window shrinks', () => {
    const physics = new Physics(800, 600)
    const body = physics.put('cat', 790, 590)
    physics.resize(300, 200)
    expect([body.x, body.y]).toEqual([300 - RADIUS, 200 - RADIUS])
  })
})

describe('a window', () => {
  it('holds a limited number of sprites, and removes the oldest', () => {
    const physics = new Physics(800, 600)
    const first = physics.put('cat', 100, 100)
    for (let i = 0; i < SPRITES_MAX; i++) physics.put('kite', 100, 100)
    expect(physics.bodies).toHaveLength(SPRITES_MAX)
    expect(physics.bodies).not.toContain(first)
  })

  it('steps a hundred moving sprites in much less than a frame', () => {
    const physics = new Physics(1_600, 1_000)
    for (let i = 0; i < 100; i++) {
      const body = physics.put('cat', 80 + (i % 20) * 75, 80 + Math.floor(i / 20) * 150)
      physics.push(body, { x: 200 * Math.cos(i), y: 200 * Math.sin(i) })
    }
    const before = process.cpuUsage()
    for (let time = 0; time < 1; time += STEP_S) physics.step()
    const { user, system } = process.cpuUsage(before)
    // Microseconds of the processor for sixty frames. The time on the clock would include that of other programs.
    expect(user + system).toBeLessThan(500_000)
  })
})
