import { expect, it } from 'vitest'
import { spanOf } from './visible-pages.ts'

it('of many pages, only those near the window are rendered, and the others keep their place', () => {
  expect(spanOf(1_000_000, () => 100, 0, 250)).toEqual({ from: 0, to: 3, above: 0, below: 99_999_700 })
  const heightOf = (page: number) => (page === 1 ? 400 : 100)
  expect(spanOf(10, heightOf, 550, 750)).toEqual({ from: 2, to: 5, above: 500, below: 500 })
  expect(spanOf(10, heightOf, 9000, 9900)).toEqual({ from: 9, to: 10, above: 1200, below: 0 })
  expect(spanOf(3, heightOf, -500, -100)).toEqual({ from: 0, to: 1, above: 0, below: 500 })
})
