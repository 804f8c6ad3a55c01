import type { DirectoryFile } from '../ui/site.ts'
import { sizeText } from '../messages/index.ts'
import { files as text } from '../messages/files.ts'
import { useAsync } from '../ui/use-async.ts'
import { CodeView } from './CodeView.tsx'
import { declaringOf, encodingOf } from '../files/encoding.ts'
import type { Kind } from '../files/kind.ts'
import { headOf, kindOf, mediaKind, SNIFFED_BYTES } from '../files/kind.ts'
import { MarkdownView } from './MarkdownView.tsx'
import { PictureView } from './PictureView.tsx'
import { Player } from './Player.tsx'
import type { MediaFile } from './player-source.ts'
import { HtmlView } from '../sandbox/index.ts'
import { SaveLink } from '../save/SaveLink.tsx'
import { TEXT_SHOWN_BYTES_MAX } from '../files/text.ts'
import { TextView } from '../files/TextView.tsx'

interface FileViewProps {
  name: string | null
  file: MediaFile
  /** The files that references in it may name. */
  beside?: readonly DirectoryFile[]
}

type Opened =
  | { blob: Blob; kind: Exclude<Kind, Played>; isGuessed: boolean }
  /** Media that plays while it loads. */
  | { blob: null; kind: Played }

type Played = Extract<Kind, { kind: 'audio' | 'video' }>

/** One file: a line that describes it, and the file in the view for its kind. */
export function FileView({ name, file, beside = [] }: FileViewProps) {
  const opened = useAsync(() => openFile(name, file), [name, file])
  const savedAs = name?.replace(/^.*\//, '') ?? 'page'
  return (
    <article class="file">
      <header class="bar">
        <h1 class="name" dir="auto" translate={name === null}>
          {name ?? text('nameless')}
        </h1>
        <p>{sizeText(file.size)}</p>
        <SaveLink file={{ ...file, name: savedAs }} />
      </header>
      {opened === null && <p class="fetching" aria-busy="true" />}
      {opened !== null && 'failed' in opened && (
        <p class="notice bad" role="alert">
          {opened.failed}
        </p>
      )}
      {opened !== null && 'ok' in opened && (
        <>
          {opened.ok.blob !== null && opened.ok.isGuessed && <p class="notice">{text('encodingGuessed')}</p>}
          <Shown name={name ?? ''} file={file} opened={opened.ok} beside={beside} />
        </>
      )}
    </article>
  )
}

async function openFile(name: string | null, file: MediaFile): Promise<Opened> {
  const played = mediaKind(name)
  if (played !== null) return { blob: null, kind: played }
  // The first bytes of an unnamed file decide, long before all of it is here.
  const head = name === null ? await headOf(file.streamed) : null
  const sniffed = head === null ? null : kindOf(null, head)
  if (sniffed?.kind === 'audio' || sniffed?.kind === 'video') return { blob: null, kind: sniffed }
  const blob = await file.blob()
  const kind = kindOf(name, new Uint8Array(await blob.slice(0, SNIFFED_BYTES).arrayBuffer()))
  return kind.kind === 'audio' || kind.kind === 'video'
    ? { blob: null, kind }
    : { blob, kind, isGuessed: await isGuessed(name, kind, blob) }
}

/** Whether it is a text that does not say its encoding, so that it may be shown in the wrong one. */
async function isGuessed(name: string | null, { kind }: Kind, blob: Blob): Promise<boolean> {
  if (kind !== 'text' && kind !== 'markdown' && kind !== 'code' && kind !== 'html') return false
  const bytes = new Uint8Array(await blob.slice(0, TEXT_SHOWN_BYTES_MAX).arrayBuffer())
  return encodingOf(bytes, kind === 'html' ? 'html' : declaringOf(name ?? '')).by === 'guess'
}

interface ShownProps {
  name: string
  file: MediaFile
  opened: Opened
  beside: readonly DirectoryFile[]
}

function Shown({ name, file, opened, beside }: ShownProps) {
  if (opened.blob === null) return <Player file={file} kind={opened.kind.kind} mime={opened.kind.mime} name={name} />
  const { blob, kind } = opened
  switch (kind.kind) {
    case 'text':
      return <TextView blob={blob} />
    case 'markdown':
      return <MarkdownView blob={blob} from={name} files={beside} />
    case 'code':
      return <CodeView blob={blob} language={kind.language} name={name} />
    case 'html':
      return <HtmlView blob={blob} from={name} files={beside} />
    case 'picture':
      return <PictureView blob={blob} mime={kind.mime} name={name} />
    case 'pdf':
      return <p class="notice">{text('pdf')}</p>
    case 'other':
      return <p class="notice">{text('unshown')}</p>
  }
}
