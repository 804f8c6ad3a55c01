import { useEffect } from 'preact/hooks'
import type { DirectoryFile } from '../ui/site.ts'
import { isFileFragment } from '../ui/route.ts'
import { useAwaited } from './awaited.ts'
import { Built } from './Built.tsx'
import { isTangled } from './text.ts'
import { TextView } from './TextView.tsx'

/** Markdown beyond this is shown as text: parsing more of it can keep the tab busy for long. */
const MARKDOWN_BYTES_MAX = 512 * 1024

interface MarkdownViewProps {
  blob: Blob
  from: string
  files: readonly DirectoryFile[]
}

/** Markdown as it is meant to be read; as plain text when that cannot be had. */
export function MarkdownView({ blob, from, files }: MarkdownViewProps) {
  const built = useAwaited(() => build(blob, from, files), [blob, from, files])
  const addresses = built !== null && 'ok' in built ? built.ok.addresses : []
  useEffect(() => () => addresses.forEach((address) => URL.revokeObjectURL(address)), [addresses])
  if (built === null) return <p class="fetching" aria-busy="true" />
  if ('failed' in built) return <TextView blob={blob} />
  return <Built of={built.ok.nodes} as="div" class="prose" dir="auto" onClick={(event) => void followInside(event)} />
}

async function build(blob: Blob, from: string, files: readonly DirectoryFile[]) {
  if (blob.size > MARKDOWN_BYTES_MAX) throw new RangeError('too long to be laid out')
  const [{ buildMarkdown }, text] = await Promise.all([import('./markdown.ts'), blob.text()])
  if (isTangled(text)) throw new RangeError('too tangled to be laid out')
  return buildMarkdown(text, from, files)
}

/** Links to a part of the text move to it, and leave the address, which names the file, alone. */
async function followInside(event: MouseEvent): Promise<void> {
  const link = event.target instanceof Element ? event.target.closest('a') : null
  const fragment = link?.getAttribute('href')
  if (!fragment?.startsWith('#') || isFileFragment(fragment)) return
  event.preventDefault()
  const within = link?.closest('.prose')
  const { headingMeant } = await import('./markdown.ts')
  if (within) headingMeant(within, fragment)?.scrollIntoView({ block: 'start' })
}
