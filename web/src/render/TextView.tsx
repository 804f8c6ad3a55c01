import { useAwaited } from './awaited.ts'
import { blocksOf, textOf } from './text.ts'

interface TextViewProps {
  blob: Blob
  /** Whether its letters are to stand in columns. */
  columns?: boolean
}

/** Words as they are. */
export function TextView({ blob, columns = false }: TextViewProps) {
  const read = useAwaited(() => textOf(blob), [blob])
  if (read === null || 'failed' in read) return <p class="fetching" aria-busy={read === null} />
  return (
    <>
      <pre class={columns ? 'words columns' : 'words'}>
        {blocksOf(read.ok.text).map((block, i) => (
          <div key={i} dir="auto">
            {block || '\n'}
          </div>
        ))}
      </pre>
      {read.ok.cut !== null && <p class="notice">{read.ok.cut}</p>}
    </>
  )
}
