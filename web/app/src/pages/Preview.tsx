import '../style/page.css'
import { useEffect, useState } from 'preact/hooks'
import { home } from '../messages/home.ts'
import { buildMarkdown, type BuiltMarkdown } from '../render/markdown.ts'
import { Nodes } from '../render/Nodes.tsx'
import type { Draft } from './draft.ts'
import { withLineBreaks } from './line-breaks.ts'

/** Pause in the typing after which the preview follows, in milliseconds. */
const PAUSE_MS = 150
/** Longer text has no preview: laying it out at each pause would make typing slow. */
const PREVIEWED_LENGTH_MAX = 100_000

/** Markdown as its readers will see it, with the pictures of the draft. */
export function Preview({ draft: { text, files } }: { draft: Draft }) {
  const [built, setBuilt] = useState<BuiltMarkdown | null>(null)
  useEffect(() => {
    if (text.length > PREVIEWED_LENGTH_MAX) return setBuilt(null)
    let isWanted = true
    const timer = setTimeout(() => {
      const pictures = files.map(({ path, blob }) => ({ path, size: blob.size, blob: () => Promise.resolve(blob) }))
      buildMarkdown(withLineBreaks(text), '', pictures).then(
        (now) => (isWanted ? setBuilt(now) : release(now)),
        () => undefined,
      )
    }, PAUSE_MS)
    return () => {
      isWanted = false
      clearTimeout(timer)
    }
  }, [text, files])
  useEffect(() => () => release(built), [built])
  if (built === null) return null
  // It scrolls, also with the keyboard. A link that is followed in it would leave the draft.
  return (
    <section class="preview" tabIndex={0} aria-label={home('preview')} onClickCapture={(event) => event.preventDefault()}>
      <h2 class="small">{home('preview')}</h2>
      <Nodes of={built.nodes} as="div" class="prose" dir="auto" />
    </section>
  )
}

function release(built: BuiltMarkdown | null): void {
  for (const address of built?.addresses ?? []) URL.revokeObjectURL(address)
}
