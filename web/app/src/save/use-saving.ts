import { useEffect, useRef, useState } from 'preact/hooks'
import type { Progress, SaveEnd } from './index.ts'

/** The state of a save. */
export type Saving =
  | { kind: 'idle' }
  | { kind: 'saving'; bytes: number }
  | { kind: 'ended'; how: SaveEnd }
  /** It is large and would have to be held in memory; the reader must confirm. */
  | { kind: 'heavy' }
  | { kind: 'failed'; reason: string }

/** Interval between progress updates, in milliseconds. */
const SHOWN_INTERVAL = 200

/** Runs `save` on a click; a second click stops it. */
export function useSaving(save: (progress: Progress, heavy: boolean) => Promise<SaveEnd>, inputs: readonly unknown[]) {
  const [saving, setSaving] = useState<Saving>({ kind: 'idle' })
  const stop = useRef<AbortController | null>(null)
  useEffect(() => {
    setSaving({ kind: 'idle' })
    // A save continues when its component is unmounted.
    return () => {
      stop.current = null
    }
  }, inputs)
  const start = async () => {
    const now = new AbortController()
    stop.current = now
    const heavy = saving.kind === 'heavy'
    let bytes = 0
    let shownAt = 0
    const onBytes = (more: number) => {
      bytes += more
      if (stop.current !== now || performance.now() - shownAt < SHOWN_INTERVAL) return
      shownAt = performance.now()
      setSaving({ kind: 'saving', bytes })
    }
    setSaving({ kind: 'saving', bytes })
    const { MemoryConfirmationNeeded } = await import('./index.ts')
    try {
      const how = await save({ signal: now.signal, onBytes }, heavy)
      if (stop.current !== now) return
      stop.current = null
      setSaving(how === 'cancelled' ? { kind: 'idle' } : { kind: 'ended', how })
    } catch (error) {
      if (stop.current !== now) return
      if (error instanceof MemoryConfirmationNeeded) setSaving({ kind: 'heavy' })
      else setSaving({ kind: 'failed', reason: error instanceof Error ? error.message : String(error) })
    }
  }
  const halt = () => {
    stop.current?.abort(new DOMException('Stopped.', 'AbortError'))
    stop.current = null
    setSaving({ kind: 'idle' })
  }
  return { saving, click: () => (saving.kind === 'saving' ? halt() : void start()) }
}
