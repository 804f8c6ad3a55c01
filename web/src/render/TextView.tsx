import { useAwaited } from './awaited.ts'
import { textOf } from './text.ts'

export function TextView({ blob }: { blob: Blob }) {
  const read = useAwaited(() => textOf(blob), [blob])
  if (read === null || 'failed' in read) return <p class="fetching" aria-busy={read === null} />
  return (
    <>
      <pre class="words" dir="auto">{read.ok.text}</pre>
      {read.ok.cut !== null && <p class="notice">{read.ok.cut}</p>}
    </>
  )
}
