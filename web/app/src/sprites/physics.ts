import type { Crossing, Edge, Velocity } from './protocol.ts'

/** Length of a simulation step in seconds. It is fixed, so that the frame rate does not change a throw. */
export const STEP_S = 1 / 120
/** Half the width of a sprite, in pixels. */
export const RADIUS = 32
/** Sprites in one window; beyond it, the oldest one is removed. */
export const SPRITES_MAX = 150
/** Speed towards an edge above which a sprite crosses it instead of bouncing, in pixels per second. */
export const THROW_SPEED = 260

const SPEED_MAX = 4_000
/** Speed of an arriving sprite in pixels per second: minimum, maximum, and maximum per pixel of the way across. */
const ENTER_SPEED = 260
const ENTER_SPEED_MAX = 900
const ENTER_SPEED_PER_PIXEL = 0.7
/** Share of the speed lost per second; and constant deceleration in pixels per second squared. */
const DRAG = 0.9
const FRICTION = 60
const BOUNCE = 0.7
/** Speed below which a sprite falls asleep, in pixels per second. */
const SLEEP_SPEED = 6

/** A sprite in this window. */
export interface Body {
  readonly id: number
  readonly sprite: string
  /** The CID of its picture; `null` for a built-in drawing. */
  readonly picture: string | null
  x: number
  y: number
  vx: number
  vy: number
  /** Whether a pointer holds it. */
  isHeld: boolean
  /** Whether it rests and needs no computation until it is touched. */
  isAsleep: boolean
  /** The edge that it is crossing, inwards or outwards. */
  over: { edge: Edge; way: 'in' | 'out' } | null
}

/** The sprites of one window and their movement. Units are pixels; y grows downwards. */
export class Physics {
  readonly bodies: Body[] = []
  width: number
  height: number
  #nextId = 1

  constructor(width: number, height: number) {
    this.width = width
    this.height = height
  }

  /** Changes the size of the window and moves sprites inside. */
  resize(width: number, height: number): void {
    this.width = width
    this.height = height
    for (const body of this.bodies) {
      if (body.over === null) this.#keepInside(body)
    }
  }

  /** Puts a sprite at a position, at rest. */
  put(sprite: string, x: number, y: number, picture: string | null = null): Body {
    const body = this.#add({ sprite, picture }, x, y, { x: 0, y: 0 })
    this.#keepInside(body)
    return body
  }

  /** Lets a sprite enter over an edge, fast enough to get inside and not right through. */
  enter({ sprite, picture, edge, at, velocity }: Crossing): Body {
    const { x, y } = this.#beyond(edge, at)
    const span = edge === 'left' || edge === 'right' ? this.width : this.height
    const speed = limited(velocity, Math.max(ENTER_SPEED, Math.min(ENTER_SPEED_MAX, ENTER_SPEED_PER_PIXEL * span)))
    const inward = { ...speed }
    if (edge === 'left') inward.x = Math.max(speed.x, ENTER_SPEED)
    if (edge === 'right') inward.x = Math.min(speed.x, -ENTER_SPEED)
    if (edge === 'up') inward.y = Math.max(speed.y, ENTER_SPEED)
    if (edge === 'down') inward.y = Math.min(speed.y, -ENTER_SPEED)
    const body = this.#add({ sprite, picture }, x, y, inward)
    body.over = { edge, way: 'in' }
    return body
  }

  grab(body: Body): void {
    Object.assign(body, { isHeld: true, isAsleep: false, over: null, vx: 0, vy: 0 })
  }

  drag(body: Body, x: number, y: number): void {
    body.x = x
    body.y = y
    this.#keepInside(body)
  }

  release(body: Body, velocity: Velocity): void {
    body.isHeld = false
    this.push(body, velocity)
  }

  push(body: Body, velocity: Velocity): void {
    const { x, y } = limited(velocity)
    body.vx = x
    body.vy = y
    body.isAsleep = false
  }

  remove(body: Body): void {
    const index = this.bodies.indexOf(body)
    if (index >= 0) this.bodies.splice(index, 1)
  }

  /** Whether anything will move in the next step. */
  get isAwake(): boolean {
    return this.bodies.some((body) => !body.isAsleep && !body.isHeld)
  }

  /** Advances by `STEP_S`; returns the sprites that have left over an edge. */
  step(): Crossing[] {
    const gone: Crossing[] = []
    for (const body of [...this.bodies]) {
      if (body.isAsleep || body.isHeld) continue
      body.x += body.vx * STEP_S
      body.y += body.vy * STEP_S
      if (body.over === null) slow(body)
      const crossing = this.#atEdges(body)
      if (crossing !== null) {
        this.remove(body)
        gone.push(crossing)
      }
    }
    this.#collide()
    return gone
  }

  #add(what: Pick<Body, 'sprite' | 'picture'>, x: number, y: number, { x: vx, y: vy }: Velocity): Body {
    if (this.bodies.length >= SPRITES_MAX) this.bodies.shift()
    const id = this.#nextId++
    const body = { id, ...what, x, y, vx, vy, isHeld: false, isAsleep: false, over: null }
    this.bodies.push(body)
    return body
  }

  /** A position just outside an edge. */
  #beyond(edge: Edge, at: number): Velocity {
    const x = between(at * this.width, RADIUS, this.width - RADIUS)
    const y = between(at * this.height, RADIUS, this.height - RADIUS)
    if (edge === 'left') return { x: -RADIUS, y }
    if (edge === 'right') return { x: this.width + RADIUS, y }
    return { x, y: edge === 'up' ? -RADIUS : this.height + RADIUS }
  }

  #keepInside(body: Body): void {
    body.x = between(body.x, RADIUS, this.width - RADIUS)
    body.y = between(body.y, RADIUS, this.height - RADIUS)
  }

  /** Pixels between a sprite's rim and an edge; negative when it is partly beyond. */
  #room({ x, y }: Body, edge: Edge): number {
    if (edge === 'left') return x - RADIUS
    if (edge === 'right') return this.width - RADIUS - x
    return edge === 'up' ? y - RADIUS : this.height - RADIUS - y
  }

  #atEdges(body: Body): Crossing | null {
    const { over } = body
    if (over !== null) {
      const room = this.#room(body, over.edge)
      if (over.way === 'in') {
        if (room >= 0) body.over = null
      } else if (room <= -2 * RADIUS) {
        const { edge } = over
        const along = edge === 'left' || edge === 'right' ? body.y / this.height : body.x / this.width
        const { sprite, picture, vx, vy } = body
        return { sprite, picture, edge, at: between(along, 0, 1), velocity: { x: vx, y: vy } }
      }
      return null
    }
    for (const edge of ['left', 'right', 'up', 'down'] as const) {
      const speed = towards(body, edge)
      if (this.#room(body, edge) > 0 || speed <= 0) continue
      if (speed >= THROW_SPEED) {
        body.over = { edge, way: 'out' }
        return null
      }
      this.#keepInside(body)
      if (edge === 'left' || edge === 'right') body.vx *= -BOUNCE
      else body.vy *= -BOUNCE
    }
    return null
  }

  /** Sprites collide as circles of equal mass and do not overlap. */
  #collide(): void {
    const { bodies } = this
    for (const [i, a] of bodies.entries()) {
      if (a.over !== null) continue
      for (let j = i + 1; j < bodies.length; j++) {
        const b = bodies[j]
        if (b === undefined || b.over !== null || (rests(a) && rests(b))) continue
        const dx = b.x - a.x
        const dy = b.y - a.y
        const apart = Math.hypot(dx, dy)
        if (apart >= 2 * RADIUS) continue
        const nx = apart > 0 ? dx / apart : 1
        const ny = apart > 0 ? dy / apart : 0
        const closing = (a.vx - b.vx) * nx + (a.vy - b.vy) * ny
        const overlap = 2 * RADIUS - apart
        this.#shove(a, b.isHeld, -nx, -ny, overlap, closing)
        this.#shove(b, a.isHeld, nx, ny, overlap, closing)
      }
    }
  }

  #shove(body: Body, isAlone: boolean, nx: number, ny: number, overlap: number, closing: number): void {
    if (body.isHeld) return
    const share = isAlone ? 1 : 0.5
    body.x += nx * overlap * share
    body.y += ny * overlap * share
    this.#keepInside(body)
    if (closing <= SLEEP_SPEED) return
    const gain = closing * (1 + BOUNCE) * share
    body.vx += nx * gain
    body.vy += ny * gain
    body.isAsleep = false
  }
}

function rests(body: Body): boolean {
  return body.isAsleep || body.isHeld
}

function towards({ vx, vy }: Body, edge: Edge): number {
  if (edge === 'left') return -vx
  if (edge === 'right') return vx
  return edge === 'up' ? -vy : vy
}

function slow(body: Body): void {
  const speed = Math.hypot(body.vx, body.vy)
  const left = Math.max(0, speed * (1 - DRAG * STEP_S) - FRICTION * STEP_S)
  if (left < SLEEP_SPEED) {
    Object.assign(body, { vx: 0, vy: 0, isAsleep: true })
    return
  }
  body.vx *= left / speed
  body.vy *= left / speed
}

function limited({ x, y }: Velocity, max = SPEED_MAX): Velocity {
  const speed = Math.hypot(x, y)
  const scale = speed > max ? max / speed : 1
  return { x: x * scale, y: y * scale }
}

/** Limits a value, with `low` taking precedence when the range is empty. */
function between(n: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, n))
}
