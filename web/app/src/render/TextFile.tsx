import { useMemo } from 'preact/hooks'
import { declaringOf, decoded, encodingOf, type Kind } from '@watchfire/pages/files'
import type { ShownFile } from '../files/reading.ts'
import { cutSentence, TEXT_SHOWN_BYTES_MAX } from '../files/text.ts'
import { TextBlocks } from '../files/TextView.tsx'
import { usePrefix } from '../files/use-prefix.ts'
import { files as text } from '../messages/files.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { CodeView } from './CodeView.tsx'
import { MarkdownView } from './MarkdownView.tsx'

interface TextFileProps {
  file: ShownFile
  name: string
  kind: Extract<Kind, { kind: 'text' | 'markdown' | 'code' }>
  /** The files that references in it may name. */
  beside: readonly DirectoryFile[]
}

/** A file of text, shown from its first block on. */
export function TextFile({ file, name, kind, beside }: TextFileProps) {
  const prefix = usePrefix(file, TEXT_SHOWN_BYTES_MAX)
  const declaring = declaringOf(name)
  const arrived = prefix !== null && 'ok' in prefix ? prefix.ok : null
  const shown = useMemo(() => {
    if (arrived === null) return null
    const encoding = encodingOf(arrived.bytes, declaring)
    const isWhole = arrived.bytes.length >= file.size
    const words = isWhole ? new TextDecoder(encoding.label).decode(arrived.bytes) : decoded(arrived.bytes, encoding)
    return { words, isGuessed: encoding.by === 'guess' }
  }, [arrived, declaring, file])
  if (prefix !== null && 'failed' in prefix) {
    return (
      <p class="notice bad" role="alert">
        {prefix.failed}
      </p>
    )
  }
  if (arrived === null || shown === null) return <p class="fetching" aria-busy="true" />
  const { words, isGuessed } = shown
  const part = { text: words, isWhole: arrived.bytes.length >= file.size, bytes: file.size }
  return (
    <>
      {isGuessed && <p class="notice">{text('encodingGuessed')}</p>}
      {kind.kind === 'text' && <TextBlocks text={words} />}
      {kind.kind === 'markdown' && <MarkdownView part={part} from={name} files={beside} />}
      {kind.kind === 'code' && <CodeView part={part} language={kind.language} />}
      {!part.isWhole && arrived.isEnd && <p class="notice">{cutSentence(file.size)}</p>}
    </>
  )
}
