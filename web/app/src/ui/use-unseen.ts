import { useEffect, useReducer, useRef } from 'preact/hooks'

/** The number of things, of that many, that came while nobody looked at the tab. */
export function useUnseen(count: number): number {
  const seen = useRef(count)
  const [, redraw] = useReducer((looks: number) => looks + 1, 0)
  useEffect(() => {
    const look = () => redraw(undefined)
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [])
  if (!document.hidden) seen.current = count
  return count - seen.current
}
