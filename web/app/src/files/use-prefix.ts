import { useEffect, useState } from 'preact/hooks'
import type { AsyncResult } from '../ui/use-async.ts'
import { prefixesOf, type Prefix, type ShownFile } from './reading.ts'

/** The first `bytesMax` bytes of a file, as far as they are here; `null` before the first. */
export function usePrefix(file: ShownFile, bytesMax: number): AsyncResult<Prefix> {
  const [prefix, setPrefix] = useState<AsyncResult<Prefix>>(null)
  useEffect(() => {
    const stop = new AbortController()
    setPrefix(null)
    const follow = async () => {
      for await (const ok of prefixesOf(file, bytesMax, stop.signal)) {
        if (stop.signal.aborted) return
        setPrefix({ ok })
      }
    }
    follow().catch((reason: unknown) => {
      if (!stop.signal.aborted) setPrefix({ failed: reason instanceof Error ? reason.message : String(reason) })
    })
    return () => stop.abort()
  }, [file, bytesMax])
  return prefix
}
