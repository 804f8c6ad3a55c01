import { useAwaited } from './awaited.ts'
import { Built } from './Built.tsx'
import { sanitise } from './sanitise.ts'
import { isTangled } from './text.ts'
import { TextView } from './TextView.tsx'

/** Source code, coloured when that takes no noticeable time. */
export function CodeView({ blob, language }: { blob: Blob; language: string }) {
  const built = useAwaited(() => colour(blob, language), [blob, language])
  if (built === null) return <p class="fetching" aria-busy="true" />
  if ('failed' in built) return <TextView blob={blob} columns />
  return <Built of={built.ok} as="pre" class="source" tabIndex={0} />
}

async function colour(blob: Blob, language: string): Promise<DocumentFragment> {
  const { coloured, COLOURED_BYTES_MAX } = await import('./highlight.ts')
  if (blob.size > COLOURED_BYTES_MAX) throw new RangeError('too long to be coloured')
  const text = await blob.text()
  const markup = isTangled(text) ? null : await coloured(text, language)
  if (markup === null) throw new RangeError('not to be coloured')
  return sanitise(`<code>${markup}</code>`, { picture: () => null, file: () => null })
}
