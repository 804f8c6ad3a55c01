import { describe, expect, it } from 'vitest'
import type { Crossing } from './throw.ts'
import { RADIUS, SPRITES_MAX, STEP_S, THROW_SPEED, World } from './world.ts'

/** Steps until everything rests; answers who left. */
function settle(world: World): Crossing[] {
  const gone: Crossing[] = []
  for (let steps = 0; world.isAwake; steps++) {
    if (steps > 10_000) throw new Error('it never rests')
    gone.push(...world.step())
  }
  return gone
}

describe('a sprite', () => {
  it('comes to rest, and then costs nothing', () => {
    const world = new World(800, 600)
    const body = world.put('cat', 400, 300)
    world.push(body, { x: 100, y: 0 })
    expect(settle(world)).toEqual([])
    expect(body.x).toBeGreaterThan(420)
    expect([body.vx, body.isAsleep]).toEqual([0, true])
  })

  it('goes over an edge that it is thrown at, and tells where and how fast', () => {
    const world = new World(800, 600)
    const body = world.put('cat', 700, 150)
    world.push(body, { x: 1_500, y: 0 })
    const [crossing, ...others] = settle(world)
    expect(others).toEqual([])
    expect(crossing).toMatchObject({ sprite: 'cat', picture: null, edge: 'right', at: 0.25 })
    expect(crossing?.velocity.x).toBeGreaterThan(THROW_SPEED)
    expect(world.bodies).toEqual([])
  })

  it('comes back from an edge that it only rolls against', () => {
    const world = new World(800, 600)
    const body = world.put('cat', 740, 150)
    world.push(body, { x: THROW_SPEED - 50, y: 0 })
    expect(settle(world)).toEqual([])
    expect(body.x).toBeLessThanOrEqual(800 - RADIUS)
  })

  it('comes in at each edge, however slow or fast it was, and stays inside', () => {
    const speeds = { left: [1, 0], right: [-1, 0], up: [0, 1], down: [0, -1] } as const
    for (const edge of ['left', 'right', 'up', 'down'] as const) {
      for (const [width, height] of [[800, 600], [360, 640], [2_560, 1_440]] as const) {
        for (const speed of [0, 500, 100_000]) {
          const [x, y] = speeds[edge]
          const world = new World(width, height)
          const body = world.enter({ sprite: 'cat', picture: null, edge, at: 0.5, velocity: { x: x * speed, y: y * speed } })
          expect(settle(world)).toEqual([])
          expect(body.x).toBeGreaterThanOrEqual(RADIUS)
          expect(body.x).toBeLessThanOrEqual(width - RADIUS)
          expect(body.y).toBeGreaterThanOrEqual(RADIUS)
          expect(body.y).toBeLessThanOrEqual(height - RADIUS)
          expect(body.over).toBeNull()
        }
      }
    }
  })

  it('pushes another away instead of lying on it', () => {
    const world = new World(800, 600)
    const hit = world.put('kite', 500, 300)
    const body = world.put('cat', 300, 300)
    world.push(body, { x: 500, y: 0 })
    settle(world)
    expect(hit.x).toBeGreaterThan(501)
    expect(Math.hypot(hit.x - body.x, hit.y - body.y)).toBeGreaterThanOrEqual(2 * RADIUS - 1)
  })

  it('stays inside when the window shrinks', () => {
    const world = new World(800, 600)
    const body = world.put('cat', 790, 590)
    world.resize(300, 200)
    expect([body.x, body.y]).toEqual([300 - RADIUS, 200 - RADIUS])
  })
})

describe('a window', () => {
  it('holds so many sprites, and the oldest makes room', () => {
    const world = new World(800, 600)
    const first = world.put('cat', 100, 100)
    for (let i = 0; i < SPRITES_MAX; i++) world.put('kite', 100, 100)
    expect(world.bodies).toHaveLength(SPRITES_MAX)
    expect(world.bodies).not.toContain(first)
  })

  it('steps a hundred moving sprites in much less than a frame', () => {
    const world = new World(1_600, 1_000)
    for (let i = 0; i < 100; i++) {
      const body = world.put('cat', 80 + (i % 20) * 75, 80 + Math.floor(i / 20) * 150)
      world.push(body, { x: 200 * Math.cos(i), y: 200 * Math.sin(i) })
    }
    const started = performance.now()
    for (let time = 0; time < 1; time += STEP_S) world.step()
    // Sixty frames; generous, because the machine may do other things too.
    expect(performance.now() - started).toBeLessThan(500)
  })
})
