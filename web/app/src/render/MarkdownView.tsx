import { useEffect, useRef, useState } from 'preact/hooks'
import type { DirectoryFile } from '../ui/site.ts'
import { isFileFragment } from '@watchfire/pages/addresses'
import { Nodes } from './Nodes.tsx'
import { mixesDirectionsTooOften } from '../files/text.ts'
import { TextBlocks } from '../files/TextView.tsx'
import { headingIn, shownHeading } from './shown-heading.ts'
import { usePagePictures, type PagePictures } from './page-pictures.ts'
import type { TextPart } from './text-part.ts'

/** Longer Markdown is shown as text, because parsing it would block the tab for long. */
const MARKDOWN_BYTES_MAX = 512 * 1024

interface MarkdownViewProps {
  part: TextPart
  from: string
  files: readonly DirectoryFile[]
}

/** Rendered Markdown; plain text when it cannot be rendered. Its pictures appear as they arrive. */
export function MarkdownView({ part, from, files }: MarkdownViewProps) {
  const pictures = usePagePictures(files)
  const built = useMarkdown(part, from, files, pictures)
  if (built === null) return <p class="fetching" aria-busy="true" />
  if (built === 'plain') return <TextBlocks text={part.text} />
  return <Nodes of={built} as="div" class="prose" dir="auto" onClick={(event) => void followInside(event)} />
}

/** The rendered text. It stays while a longer part of the text is rendered. */
function useMarkdown(part: TextPart, from: string, files: readonly DirectoryFile[], pictures: PagePictures | null) {
  const [built, setBuilt] = useState<DocumentFragment | 'plain' | null>(null)
  /** The part of the text that the address names, until it is in view; `null` from then on. */
  const named = useRef<Element | null | undefined>(undefined)
  useEffect(() => {
    if (pictures === null) return
    let wanted = true
    build(part, from, files, pictures).then(
      ({ nodes, named: found }) => {
        if (!wanted) return
        if (named.current !== null) named.current = found
        shownHeading.value = headingIn(nodes)
        setBuilt(nodes)
      },
      () => wanted && setBuilt('plain'),
    )
    return () => {
      wanted = false
    }
  }, [part.text, part.isWhole, from, files, pictures])
  useEffect(
    () => () => {
      shownHeading.value = null
    },
    [],
  )
  useEffect(() => {
    if (!named.current?.isConnected) return
    named.current.scrollIntoView({ block: 'start' })
    named.current = null
  }, [built])
  return built
}

async function build({ text, isWhole, bytes }: TextPart, from: string, files: readonly DirectoryFile[], pictures: PagePictures) {
  if (bytes > MARKDOWN_BYTES_MAX) throw new RangeError('too long to be laid out')
  const { buildMarkdown, findPart } = await import('./markdown.ts')
  if (mixesDirectionsTooOften(text)) throw new RangeError('too tangled to be laid out')
  const nodes = await buildMarkdown(isWhole ? text : wholeParagraphs(text), from, files, pictures)
  const address = new URLSearchParams(location.hash.slice(1))
  const named = address.get('file') === from ? address.get('part') : null
  return { nodes, named: named === null ? undefined : (findPart(nodes, named) ?? undefined) }
}

/** The text without its last paragraph, the rest of which has not arrived. */
function wholeParagraphs(text: string): string {
  const end = text.lastIndexOf('\n\n')
  return end < 0 ? text : text.slice(0, end)
}

/** Scrolls to the part that a fragment link names, and keeps the address, which names the file. */
async function followInside(event: MouseEvent): Promise<void> {
  const link = event.target instanceof Element ? event.target.closest('a') : null
  const fragment = link?.getAttribute('href')
  if (!fragment?.startsWith('#') || isFileFragment(fragment)) return
  event.preventDefault()
  const within = link?.closest('.prose')
  const { findPart } = await import('./markdown.ts')
  if (within) findPart(within, fragment)?.scrollIntoView({ block: 'start' })
}
