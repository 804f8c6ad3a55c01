import { useEffect, useMemo, useReducer, useRef } from 'preact/hooks'
import { inTasks, type PausingWork } from '@watchfire/pages/content'

/**
 * The result of work on the items of a page, again whenever one of `inputs` changes. Work on few items is done at once. While work on
 * many items goes on in several tasks, the result is the one before, and `null` at first.
 */
export function useWork<Result>(begin: () => PausingWork<Result>, inputs: readonly unknown[]): Result | null {
  const result = useRef<Result | null>(null)
  const [, redraw] = useReducer((count: number) => count + 1, 0)
  const rest = useMemo(() => {
    const work = begin()
    const step = work.next()
    if (!step.done) return work
    result.current = step.value
    return null
  }, inputs)
  useEffect(() => {
    if (rest === null) return
    const stop = new AbortController()
    const show = (done: Result) => {
      if (stop.signal.aborted) return
      result.current = done
      redraw(undefined)
    }
    // It only ends early when it is stopped.
    void inTasks(rest, stop.signal).then(show, () => undefined)
    return () => stop.abort()
  }, [rest])
  return result.current
}
