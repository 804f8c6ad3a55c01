import { part } from './part.ts'

const text = part('durations', {
  seconds: { other: '{count} s' },
  minutes: { other: '{count} min' },
  hours: { other: '{count} h' },
})

/** A long wait as an estimate: in steps of 5 s above 20 s, then in minutes, then in hours. */
export function durationText(milliseconds: number): string {
  const seconds = Math.max(1, Math.ceil(milliseconds / 1000))
  if (seconds <= 20) return text('seconds', { count: seconds })
  const steps = Math.ceil(seconds / 5) * 5
  if (steps < 120) return text('seconds', { count: steps })
  if (seconds < 90 * 60) return text('minutes', { count: Math.round(seconds / 60) })
  return text('hours', { count: Math.round(seconds / 3600) })
}
