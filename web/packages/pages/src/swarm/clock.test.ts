import { expect, it } from 'vitest'
import { FakeClock } from '../../test/fake-clock.ts'
import { Alarm } from './clock.ts'

it('an alarm rings once at the earliest time that was set, and waits once more for as long as it is late', () => {
  const clock = new FakeClock()
  const rang: number[] = []
  const alarm = new Alarm(clock, () => rang.push(clock.now()), 5000)
  alarm.set(1000)
  alarm.set(500)
  alarm.set(800)
  clock.pass(2000)
  alarm.set(100)
  clock.pass(0)
  expect([rang, alarm.at]).toEqual([[500, 2000], Infinity])

  alarm.set(3000)
  clock.holdUp(1600)
  // Setting the same time again meanwhile changes nothing.
  alarm.set(3000)
  clock.pass(599)
  expect(rang).toHaveLength(2)
  clock.pass(1)
  expect(rang.at(-1)).toBe(4200)
  alarm.set(5000)
  alarm.stop()
  clock.pass(10_000)
  expect(rang).toHaveLength(3)
})

it('an alarm that rings early rings for the time that was set', () => {
  const rang: number[] = []
  let callback = () => {}
  const after = (_wait: number, call: () => void) => {
    callback = call
    return () => {}
  }
  const alarm = new Alarm({ now: () => 0.1, after }, (now) => rang.push(now))
  alarm.set(12.3)
  callback()
  expect(rang).toEqual([12.3])
})
