import { useEffect, useState } from 'preact/hooks'

/** The result of a promise; `null` while it is pending. */
export type AsyncResult<T> = { ok: T } | { failed: string } | null

/** Awaits the result of `load`, again whenever one of `inputs` changes, and ignores late results. */
export function useAsync<T>(load: () => Promise<T>, inputs: readonly unknown[]): AsyncResult<T> {
  const [outcome, setOutcome] = useState<AsyncResult<T>>(null)
  useEffect(() => {
    let wanted = true
    setOutcome(null)
    load().then(
      (ok) => wanted && setOutcome({ ok }),
      (reason: unknown) => wanted && setOutcome({ failed: reason instanceof Error ? reason.message : String(reason) }),
    )
    return () => {
      wanted = false
    }
  }, inputs)
  return outcome
}

/** An object URL for the blob while the component is mounted. */
export function useObjectUrl(blob: Blob, mime: string): string | null {
  const [address, setAddress] = useState<string | null>(null)
  useEffect(() => {
    const made = URL.createObjectURL(blob.slice(0, blob.size, mime))
    setAddress(made)
    return () => URL.revokeObjectURL(made)
  }, [blob, mime])
  return address
}
