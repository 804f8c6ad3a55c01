import { useAsync } from '../ui/use-async.ts'
import type { Declaring } from '@watchfire/pages/files'
import { BLOCK_LENGTH_MAX, blocksOf, partsOf, textOf } from './text.ts'

interface TextViewProps {
  blob: Blob
  /** Where it can declare its encoding. */
  declaring?: Declaring | null
}

/** Plain text of a file that is here. */
export function TextView({ blob, declaring = null }: TextViewProps) {
  const read = useAsync(() => textOf(blob, declaring), [blob, declaring])
  if (read === null || 'failed' in read) return <p class="fetching" aria-busy={read === null} />
  return (
    <>
      <TextBlocks text={read.ok.text} />
      {read.ok.cut !== null && <p class="notice">{read.ok.cut}</p>}
    </>
  )
}

/**
 * Plain text, in a monospace font with `columns`. Text that is added at its end leaves the blocks before it as they are. A selection is
 * the text itself: only between blocks does a browser copy the end of a line.
 */
export function TextBlocks({ text, columns = false }: { text: string; columns?: boolean }) {
  return (
    <pre class={columns ? 'words columns' : 'words'}>
      {blocksOf(text).map((block, i) => (
        <div key={i} dir="auto">
          {block.length > BLOCK_LENGTH_MAX ? partsOf(block).map((part, at) => <span key={at}>{part}</span>) : block || '\n'}
        </div>
      ))}
    </pre>
  )
}
