import { useEffect } from 'preact/hooks'
import type { DirectoryFile } from '../ui/site.ts'
import { isFileFragment } from '../ui/route.ts'
import { useAsync } from '../ui/use-async.ts'
import { textIn } from '../files/encoding.ts'
import { Nodes } from './Nodes.tsx'
import { mixesDirectionsTooOften } from '../files/text.ts'
import { TextView } from '../files/TextView.tsx'

/** Longer Markdown is shown as text, because parsing it would block the tab for long. */
const MARKDOWN_BYTES_MAX = 512 * 1024

interface MarkdownViewProps {
  blob: Blob
  from: string
  files: readonly DirectoryFile[]
}

/** Rendered Markdown; plain text when it cannot be rendered. */
export function MarkdownView({ blob, from, files }: MarkdownViewProps) {
  const built = useAsync(() => build(blob, from, files), [blob, from, files])
  const addresses = built !== null && 'ok' in built ? built.ok.addresses : []
  useEffect(
    () => () => {
      for (const address of addresses) URL.revokeObjectURL(address)
    },
    [addresses],
  )
  if (built === null) return <p class="fetching" aria-busy="true" />
  if ('failed' in built) return <TextView blob={blob} />
  return <Nodes of={built.ok.nodes} as="div" class="prose" dir="auto" onClick={(event) => void followInside(event)} />
}

async function build(blob: Blob, from: string, files: readonly DirectoryFile[]) {
  if (blob.size > MARKDOWN_BYTES_MAX) throw new RangeError('too long to be laid out')
  const [{ buildMarkdown }, text] = await Promise.all([import('./markdown.ts'), textIn(blob)])
  if (mixesDirectionsTooOften(text)) throw new RangeError('too tangled to be laid out')
  return buildMarkdown(text, from, files)
}

/** Scrolls to the heading that a fragment link names, and keeps the address, which names the file. */
async function followInside(event: MouseEvent): Promise<void> {
  const link = event.target instanceof Element ? event.target.closest('a') : null
  const fragment = link?.getAttribute('href')
  if (!fragment?.startsWith('#') || isFileFragment(fragment)) return
  event.preventDefault()
  const within = link?.closest('.prose')
  const { findHeading } = await import('./markdown.ts')
  if (within) findHeading(within, fragment)?.scrollIntoView({ block: 'start' })
}
