import { expect, it } from 'vitest'
import { FakeClock } from '../../test/fake-clock.ts'
import { QuietWatch } from './quiet-watch.ts'

it('reports once that peers fell silent, and again after they sent more', () => {
  const clock = new FakeClock()
  const quietAt: number[] = []
  const watch = new QuietWatch(clock, () => quietAt.push(clock.now()))
  clock.pass(10_000)
  for (let times = 0; times < 10; times++) {
    watch.noteHeard()
    clock.pass(500)
  }
  expect(quietAt).toEqual([])
  clock.pass(60_000)
  expect(quietAt).toEqual([16_500])
  watch.noteHeard()
  clock.pass(60_000)
  expect(quietAt).toHaveLength(2)
  watch.noteHeard()
  watch.close()
  clock.pass(60_000)
  expect(quietAt).toHaveLength(2)
})
