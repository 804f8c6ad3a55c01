import { expect, it } from 'vitest'
import { durationText } from './durations.ts'

it('a duration is an estimate, which does not pretend to be exact', () => {
  const texts = [1, 19_200, 31_000, 88_000, 118_000, 89 * 60_000, 150 * 60_000].map(durationText)
  expect(texts).toEqual(['1 s', '20 s', '35 s', '90 s', '2 min', '89 min', '3 h'])
})
