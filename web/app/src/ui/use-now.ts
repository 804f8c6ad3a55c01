import { useEffect, useState } from 'preact/hooks'

/** Interval between updates, in milliseconds. */
const LOOK_MS = 10_000

/** The time by `Date.now()`, as it passes. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), LOOK_MS)
    return () => clearInterval(timer)
  }, [])
  return now
}
