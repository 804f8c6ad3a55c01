import { useAsync } from '../ui/use-async.ts'
import type { Declaring } from './encoding.ts'
import { blocksOf, textOf } from './text.ts'

interface TextViewProps {
  blob: Blob
  /** Whether to use a monospace font. */
  columns?: boolean
  /** Where it can declare its encoding. */
  declaring?: Declaring | null
}

/** Plain text. */
export function TextView({ blob, columns = false, declaring = null }: TextViewProps) {
  const read = useAsync(() => textOf(blob, declaring), [blob, declaring])
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
