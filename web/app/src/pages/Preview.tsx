import '../style/page.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { editor } from '../messages/editor.ts'
import { buildMarkdown } from '../render/markdown.ts'
import { Nodes } from '../render/Nodes.tsx'
import { usePagePictures } from '../render/page-pictures.ts'
import { lazy } from '../ui/lazy.tsx'
import type { DirectoryFile } from '../ui/site.ts'
import type { Draft } from './draft.ts'
import { withLineBreaks } from '../files/line-breaks.ts'
import { writtenFile } from './written.ts'

const HtmlView = lazy(() => import('../sandbox/index.ts').then(({ HtmlView }) => HtmlView))

/** Pause in the typing after which the preview follows, in milliseconds. A web page starts anew each time. */
const PAUSE_MS = { markdown: 150, html: 600 }
/** Longer text has no preview: laying it out at each pause would make typing slow. */
const PREVIEWED_LENGTH_MAX = 100_000

/** Markdown or HTML as its readers will see it, with the files of the draft. */
export function Preview({ draft }: { draft: Draft }) {
  const { files } = draft
  const beside = useMemo(() => files.map(({ path, blob }) => ({ path, size: blob.size, blob: () => Promise.resolve(blob) })), [files])
  return draft.writing === 'html' ? <WebPage draft={draft} beside={beside} /> : <Formatted text={draft.text} beside={beside} />
}

/** The name that a web page has among its files. */
const NAME = 'index.html'

function WebPage({ draft, beside }: { draft: Draft; beside: readonly DirectoryFile[] }) {
  const [page, setPage] = useState<Blob | null>(null)
  usePause(PAUSE_MS.html, () => setPage(draft.text.length > PREVIEWED_LENGTH_MAX ? null : writtenFile(draft)), [draft.text])
  const files = useMemo(
    () => (page === null ? [] : [{ path: NAME, size: page.size, blob: () => Promise.resolve(page) }, ...beside]),
    [page, beside],
  )
  if (page === null) return null
  return (
    <Frame>
      <HtmlView blob={page} from={NAME} files={files} />
    </Frame>
  )
}

function Formatted({ text, beside }: { text: string; beside: readonly DirectoryFile[] }) {
  const [built, setBuilt] = useState<DocumentFragment | null>(null)
  const pictures = usePagePictures(beside)
  const build = (isWanted: () => boolean) => {
    if (text.length > PREVIEWED_LENGTH_MAX) return setBuilt(null)
    if (pictures === null) return
    buildMarkdown(withLineBreaks(text), '', beside, pictures).then(
      (now) => isWanted() && setBuilt(now),
      () => undefined,
    )
  }
  usePause(PAUSE_MS.markdown, build, [text, beside, pictures])
  if (built === null) return null
  return (
    <Frame>
      <Nodes of={built} as="div" class="prose" dir="auto" />
    </Frame>
  )
}

function Frame({ children }: { children: ComponentChildren }) {
  // It scrolls, also with the keyboard. A link that is followed in it would leave the draft.
  return (
    <section class="preview" tabIndex={0} aria-label={editor('preview')} onClickCapture={(event) => event.preventDefault()}>
      <h2 class="small">{editor('preview')}</h2>
      {children}
    </section>
  )
}

/** Calls `follow` when the inputs have not changed for a while. `isWanted` says whether they still have not. */
function usePause(ms: number, follow: (isWanted: () => boolean) => void, inputs: readonly unknown[]): void {
  useEffect(() => {
    let isWanted = true
    const timer = setTimeout(() => follow(() => isWanted), ms)
    return () => {
      isWanted = false
      clearTimeout(timer)
    }
  }, inputs)
}
