import type { Streamed } from '../ui/site.ts'
import { useAsync } from '../ui/use-async.ts'
import { headOf, kindOf } from '../files/kind.ts'

/** Whether a file without a name is audio or video, by its first bytes, long before all of it is here. */
export function useIsUnnamedMedia(streamed: Streamed | undefined): boolean {
  const result = useAsync(async () => {
    const head = await headOf(streamed)
    const kind = head === null ? null : kindOf(null, head).kind
    return kind === 'audio' || kind === 'video'
  }, [streamed])
  return result !== null && 'ok' in result && result.ok
}
