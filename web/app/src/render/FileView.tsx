import { useEffect, useRef } from 'preact/hooks'
import type { DirectoryFile } from '../ui/site.ts'
import { files as text } from '../messages/files.ts'
import { lazy } from '../ui/lazy.tsx'
import { useLoading, type AsyncResult } from '../ui/use-async.ts'
import { FileHead } from '../files/FileHead.tsx'
import { type Kind, kindOf, kindOfName, mediaKind, SNIFFED_BYTES } from '@watchfire/pages/files'
import { namesFolder } from '../files/title.ts'
import { authenticate, headOf, measured, wholeOf, type ShownFile } from '../files/reading.ts'
import { PictureView } from './PictureView.tsx'
import { prepareLayout } from './prepare-layout.ts'
import { Player } from './Player.tsx'
import { HtmlView } from '../sandbox/index.ts'
import { SaveLink } from '../save/SaveLink.tsx'
import { TextFile } from './TextFile.tsx'

const PdfView = lazy(async () => (await import('../pdf/index.ts')).PdfView)

interface FileViewProps {
  name: string | null
  file: ShownFile
  /** The name of the page that has this file among others; `null` when it has none. */
  page?: string | null
  /** The files that references in it may name. */
  beside?: readonly DirectoryFile[]
}

/** One file: a line that describes it, and its content. */
export function FileView({ name, file, page = null, beside = [] }: FileViewProps) {
  const shown = useMeasured(file)
  const known = shown !== null && 'ok' in shown ? shown.ok : file
  const savedAs = name?.replace(/^.*\//, '') ?? 'page'
  return (
    <article class={hasOwnTitle(name) ? 'file titled' : 'file'}>
      <FileHead path={name} page={page} size={known.size}>
        <SaveLink file={{ ...known, name: savedAs, isNameless: name === null }} />
      </FileHead>
      {shown === null && <p class="fetching" aria-busy="true" />}
      {shown !== null && 'ok' in shown && <FileContent name={name} file={shown.ok} beside={beside} />}
      {shown !== null && 'failed' in shown && (
        <p class="notice bad" role="alert">
          {shown.failed}
        </p>
      )}
    </article>
  )
}

/**
 * Whether the file brings a title of its own, so that its name is small. Above a text whose name says nothing, such as `index.md`, is the
 * name of its folder.
 */
function hasOwnTitle(name: string | null): boolean {
  if (name === null || namesFolder(name)) return false
  const kind = kindOfName(name)?.kind
  return kind === 'markdown' || kind === 'text'
}

/** The file once its size is known, and from then on as the same object. The list may state the size a little later. */
function useMeasured(file: ShownFile): AsyncResult<ShownFile> {
  const first = useRef(file)
  const estimated = first.current.isEstimate === true
  const found = useLoading((signal) => measured(first.current, { signal }), [])
  return estimated ? found : { ok: file }
}

/** A file in the view for its kind, as far as it is here. */
export function FileContent({ name, file, beside = [] }: FileViewProps) {
  useEffect(() => prepareLayout(name), [name])
  const kind = useLoading((signal) => kindOfFile(name, file, signal), [name, file])
  if (file.size === 0 && file.isEstimate !== true) return <p class="notice">{text('emptyFile')}</p>
  if (kind === null) return <p class="fetching" aria-busy="true" />
  if ('failed' in kind) {
    return (
      <p class="notice bad" role="alert">
        {kind.failed}
      </p>
    )
  }
  return <Shown name={name ?? ''} file={file} kind={kind.ok} beside={beside} />
}

/** The kind of a file, from its name and its first bytes, long before all of it is here. */
async function kindOfFile(name: string | null, file: ShownFile, signal: AbortSignal): Promise<Kind> {
  return mediaKind(name) ?? kindOf(name, await headOf(file, SNIFFED_BYTES, signal))
}

interface ShownProps {
  name: string
  file: ShownFile
  kind: Kind
  beside: readonly DirectoryFile[]
}

function Shown({ name, file, kind, beside }: ShownProps) {
  switch (kind.kind) {
    case 'audio':
    case 'video':
      return <Player file={file} kind={kind.kind} mime={kind.mime} name={name} />
    case 'text':
    case 'markdown':
    case 'code':
      return <TextFile file={file} kind={kind} name={name} beside={beside} />
    case 'html':
      return <HtmlFile file={file} name={name} beside={beside} />
    case 'picture':
      return <PictureView file={file} mime={kind.mime} name={name} />
    case 'pdf':
      return <PdfView file={file} name={name} />
    case 'other':
      return <UnshownFile file={file} />
  }
}

/** HTML outside of a site. It is prepared as a whole, because its scripts and policies must not take effect in part. */
function HtmlFile({ file, name, beside }: Omit<ShownProps, 'kind'>) {
  const blob = useLoading((signal) => wholeOf(file, signal), [file])
  if (blob === null) return <p class="fetching" aria-busy="true" />
  if ('failed' in blob) {
    return (
      <p class="notice bad" role="alert">
        {blob.failed}
      </p>
    )
  }
  return <HtmlView blob={blob.ok} from={name} files={beside} />
}

/** A file that is only saved. No view reads it, so a changed part is found here. */
function UnshownFile({ file }: { file: ShownFile }) {
  const authentic = useLoading((signal) => authenticate(file, signal), [file])
  if (authentic === null || 'ok' in authentic) return <p class="notice">{text('unshown')}</p>
  return (
    <p class="notice bad" role="alert">
      {authentic.failed}
    </p>
  )
}
