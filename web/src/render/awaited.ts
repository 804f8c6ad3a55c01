import { useEffect, useState } from 'preact/hooks'

/** The outcome of something awaited: `null` while it lasts. */
export type Outcome<T> = { ok: T } | { failed: string } | null

/** Awaits what `load` gives, anew whenever one of `inputs` changes, and drops what comes too late. */
export function useAwaited<T>(load: () => Promise<T>, inputs: readonly unknown[]): Outcome<T> {
  const [outcome, setOutcome] = useState<Outcome<T>>(null)
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

/** An address for the blob as long as its reader looks at it. */
export function useBlobAddress(blob: Blob, mime: string): string | null {
  const [address, setAddress] = useState<string | null>(null)
  useEffect(() => {
    const made = URL.createObjectURL(blob.slice(0, blob.size, mime))
    setAddress(made)
    return () => URL.revokeObjectURL(made)
  }, [blob, mime])
  return address
}
