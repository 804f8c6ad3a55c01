import { expect, it } from 'vitest'
import { Flick } from './flick.ts'

it('a flick is as fast as its last moment', () => {
  const flick = new Flick()
  flick.begin(0, 0, 0)
  flick.move(10, 0, 200)
  flick.move(40, 10, 230)
  flick.move(70, 20, 260)
  const { x, y } = flick.velocity(265)
  expect([Math.round(x), Math.round(y)]).toEqual([1_000, 333])
})

it('who rests before letting go drops it', () => {
  const flick = new Flick()
  flick.begin(0, 0, 0)
  flick.move(90, 0, 30)
  expect(flick.velocity(500)).toEqual({ x: 0, y: 0 })
})
