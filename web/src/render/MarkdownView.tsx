import { useEffect } from 'preact/hooks'
import type { DirectoryFile } from '../ui/site.ts'
import { useAwaited } from './awaited.ts'
import { Built } from './Built.tsx'
import { textOf } from './text.ts'
import { TextView } from './TextView.tsx'

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
  return (
    <>
      <Built of={built.ok.nodes} as="div" class="prose" dir="auto" onClick={(event) => void followInside(event)} />
      {built.ok.cut !== null && <p class="notice">{built.ok.cut}</p>}
    </>
  )
}

async function build(blob: Blob, from: string, files: readonly DirectoryFile[]) {
  const [{ buildMarkdown }, { text, cut }] = await Promise.all([import('./markdown.ts'), textOf(blob)])
  return { ...(await buildMarkdown(text, from, files)), cut }
}

/** Links to a part of the text move to it, and leave the address, which names the file, alone. */
async function followInside(event: MouseEvent): Promise<void> {
  const link = event.target instanceof Element ? event.target.closest('a') : null
  const fragment = link?.getAttribute('href')
  if (!fragment?.startsWith('#') || fragment.startsWith('#file=')) return
  event.preventDefault()
  const within = link?.closest('.prose')
  const { headingMeant } = await import('./markdown.ts')
  if (within) headingMeant(within, fragment)?.scrollIntoView({ block: 'start' })
}
