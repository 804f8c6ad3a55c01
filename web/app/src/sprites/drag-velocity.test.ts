import { expect, it } from 'vitest'
import { DragVelocity } from './drag-velocity.ts'

it('a throw has the velocity of the last moment of the drag', () => {
  const flick = new DragVelocity()
  flick.begin(0, 0, 0)
  flick.move(10, 0, 200)
  flick.move(40, 10, 230)
  flick.move(70, 20, 260)
  const { x, y } = flick.velocity(265)
  expect([Math.round(x), Math.round(y)]).toEqual([1_000, 333])
})

it('a pause before the release ends the throw', () => {
  const flick = new DragVelocity()
  flick.begin(0, 0, 0)
  flick.move(90, 0, 30)
  expect(flick.velocity(500)).toEqual({ x: 0, y: 0 })
})
