import type { DirectoryFile } from '../ui/site.ts'
import { sizeText } from '../words/index.ts'
import { files as words } from '../words/files.ts'
import { useAwaited } from './awaited.ts'
import { CodeView } from './CodeView.tsx'
import type { Kind } from './kind.ts'
import { kindOf, SNIFFED_BYTES } from './kind.ts'
import { MarkdownView } from './MarkdownView.tsx'
import { MediaView } from './MediaView.tsx'
import { HtmlView } from '../sandbox/index.ts'
import { SaveLink } from './SaveLink.tsx'
import { TextView } from './TextView.tsx'

interface FileViewProps {
  name: string | null
  file: { size: number; blob: () => Promise<Blob> }
  /** The files that its own references may name. */
  beside?: readonly DirectoryFile[]
}

interface Opened {
  blob: Blob
  kind: Kind
}

/** One file: a line that says what it is, and the file itself as its kind is best shown. */
export function FileView({ name, file, beside = [] }: FileViewProps) {
  const opened = useAwaited(() => openFile(name, file.blob), [name, file])
  const savedAs = name?.replace(/^.*\//, '') ?? 'page'
  return (
    <article class="file">
      <header class="bar">
        <h1 class="name" dir="auto" translate={name === null}>{name ?? words('nameless')}</h1>
        <p>{sizeText(file.size)}</p>
        <SaveLink name={savedAs} blob={file.blob} />
      </header>
      {opened === null && <p class="fetching" aria-busy="true" />}
      {opened !== null && 'failed' in opened && (
        <p class="notice bad" role="alert">
          {opened.failed}
        </p>
      )}
      {opened !== null && 'ok' in opened && (
        <Shown name={name ?? ''} opened={opened.ok} beside={beside} />
      )}
    </article>
  )
}

async function openFile(name: string | null, blob: () => Promise<Blob>): Promise<Opened> {
  const whole = await blob()
  const head = new Uint8Array(await whole.slice(0, SNIFFED_BYTES).arrayBuffer())
  return { blob: whole, kind: kindOf(name, head) }
}

interface ShownProps {
  name: string
  opened: Opened
  beside: readonly DirectoryFile[]
}

function Shown({ name, opened: { blob, kind }, beside }: ShownProps) {
  switch (kind.kind) {
    case 'text':
      return <TextView blob={blob} />
    case 'markdown':
      return <MarkdownView blob={blob} from={name} files={beside} />
    case 'code':
      return <CodeView blob={blob} language={kind.language} />
    case 'html':
      return <HtmlView blob={blob} from={name} files={beside} />
    case 'picture':
    case 'audio':
    case 'video':
      return <MediaView blob={blob} kind={kind.kind} mime={kind.mime} name={name} />
    case 'pdf':
      return <p class="notice">{words('pdf')}</p>
    case 'other':
      return <p class="notice">{words('unshown')}</p>
  }
}
