import { useAsync } from '../ui/use-async.ts'
import { declaringOf, textIn, type Declaring } from '../files/encoding.ts'
import { Nodes } from './Nodes.tsx'
import { sanitise } from './sanitise.ts'
import { mixesDirectionsTooOften } from '../files/text.ts'
import { TextView } from '../files/TextView.tsx'

/** Source code, highlighted when that takes no noticeable time. */
export function CodeView({ blob, language, name }: { blob: Blob; language: string; name: string }) {
  const declaring = declaringOf(name)
  const built = useAsync(() => colour(blob, language, declaring), [blob, language, declaring])
  if (built === null) return <p class="fetching" aria-busy="true" />
  if ('failed' in built) return <TextView blob={blob} columns declaring={declaring} />
  return <Nodes of={built.ok} as="pre" class="source" tabIndex={0} />
}

async function colour(blob: Blob, language: string, declaring: Declaring | null): Promise<DocumentFragment> {
  const { highlightCode, HIGHLIGHTED_BYTES_MAX } = await import('./highlight.ts')
  if (blob.size > HIGHLIGHTED_BYTES_MAX) throw new RangeError('too long to be highlightCode')
  const text = await textIn(blob, declaring)
  const markup = mixesDirectionsTooOften(text) ? null : await highlightCode(text, language)
  if (markup === null) throw new RangeError('not to be highlightCode')
  return sanitise(`<code>${markup}</code>`, { picture: () => null, file: () => null })
}
