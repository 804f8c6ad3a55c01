import '../style/page.css'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { home } from '../messages/home.ts'
import { buildMarkdown } from '../render/markdown.ts'
import { Nodes } from '../render/Nodes.tsx'
import { usePagePictures } from '../render/page-pictures.ts'
import type { Draft } from './draft.ts'
import { withLineBreaks } from '../files/line-breaks.ts'

/** Pause in the typing after which the preview follows, in milliseconds. */
const PAUSE_MS = 150
/** Longer text has no preview: laying it out at each pause would make typing slow. */
const PREVIEWED_LENGTH_MAX = 100_000

/** Markdown as its readers will see it, with the pictures of the draft. */
export function Preview({ draft: { text, files } }: { draft: Draft }) {
  const [built, setBuilt] = useState<DocumentFragment | null>(null)
  const beside = useMemo(() => files.map(({ path, blob }) => ({ path, size: blob.size, blob: () => Promise.resolve(blob) })), [files])
  const pictures = usePagePictures(beside)
  useEffect(() => {
    if (text.length > PREVIEWED_LENGTH_MAX) return setBuilt(null)
    if (pictures === null) return
    let isWanted = true
    const timer = setTimeout(() => {
      buildMarkdown(withLineBreaks(text), '', beside, pictures).then(
        (now) => isWanted && setBuilt(now),
        () => undefined,
      )
    }, PAUSE_MS)
    return () => {
      isWanted = false
      clearTimeout(timer)
    }
  }, [text, beside, pictures])
  if (built === null) return null
  // It scrolls, also with the keyboard. A link that is followed in it would leave the draft.
  return (
    <section class="preview" tabIndex={0} aria-label={home('preview')} onClickCapture={(event) => event.preventDefault()}>
      <h2 class="small">{home('preview')}</h2>
      <Nodes of={built} as="div" class="prose" dir="auto" />
    </section>
  )
}
