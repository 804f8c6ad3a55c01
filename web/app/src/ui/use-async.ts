import { useEffect, useState } from 'preact/hooks'

/** The result of a promise; `null` while it is pending. */
export type AsyncResult<T> = { ok: T } | { failed: string } | null

/** Awaits the result of `load`, again whenever one of `inputs` changes, and ignores late results. */
export function useAsync<T>(load: () => Promise<T>, inputs: readonly unknown[]): AsyncResult<T> {
  return useLoading(load, inputs)
}

/** The same for a load that can be stopped: the signal is aborted when the result is not wanted any more. */
export function useLoading<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): AsyncResult<T> {
  const [outcome, setOutcome] = useState<AsyncResult<T>>(null)
  useEffect(() => {
    const stop = new AbortController()
    setOutcome(null)
    load(stop.signal).then(
      (ok) => stop.signal.aborted || setOutcome({ ok }),
      (reason: unknown) => stop.signal.aborted || setOutcome({ failed: reason instanceof Error ? reason.message : String(reason) }),
    )
    return () => stop.abort()
  }, inputs)
  return outcome
}
