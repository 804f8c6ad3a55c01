import { useEffect, useRef, useState } from 'preact/hooks'
import type { Progress, SaveEnd } from '../save/index.ts'

/** How something is being saved. */
export type Saving =
  | { kind: 'idle' }
  | { kind: 'saving'; bytes: number }
  | { kind: 'ended'; how: SaveEnd }
  /** It would have to be held in memory, and is large. */
  | { kind: 'heavy' }
  | { kind: 'failed'; reason: string }

/** Between two looks at how far it is. */
const SHOWN_INTERVAL = 200

/** Saves on a click what `save` saves; a second click meanwhile stops it. */
export function useSaving(save: (progress: Progress, heavy: boolean) => Promise<SaveEnd>, inputs: readonly unknown[]) {
  const [saving, setSaving] = useState<Saving>({ kind: 'idle' })
  const stop = useRef<AbortController | null>(null)
  useEffect(() => {
    setSaving({ kind: 'idle' })
    // Whoever looks elsewhere does not stop it.
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
    const { TooHeavy } = await import('../save/index.ts')
    try {
      const how = await save({ signal: now.signal, onBytes }, heavy)
      if (stop.current !== now) return
      stop.current = null
      setSaving(how === 'cancelled' ? { kind: 'idle' } : { kind: 'ended', how })
    } catch (error) {
      if (stop.current !== now) return
      if (error instanceof TooHeavy) setSaving({ kind: 'heavy' })
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
