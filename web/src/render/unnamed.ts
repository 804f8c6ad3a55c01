import type { Streamed } from '../ui/site.ts'
import { useAwaited } from './awaited.ts'
import { headOf, kindOf } from './kind.ts'

/** Whether a file without a name is a sound or a film, as its first bytes tell long before all is here. */
export function useUnnamedPlays(streamed: Streamed | undefined): boolean {
  const told = useAwaited(async () => {
    const head = await headOf(streamed)
    const kind = head === null ? null : kindOf(null, head).kind
    return kind === 'audio' || kind === 'video'
  }, [streamed])
  return told !== null && 'ok' in told && told.ok
}
