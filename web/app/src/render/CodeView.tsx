import { useAsync } from '../ui/use-async.ts'
import { Nodes } from './Nodes.tsx'
import { sanitise } from './sanitise.ts'
import { mixesDirectionsTooOften } from '../files/text.ts'
import { TextBlocks } from '../files/TextView.tsx'
import type { TextPart } from './text-part.ts'

/** Source code, highlighted once all of it is here, if that takes no noticeable time. */
export function CodeView({ part, language }: { part: TextPart; language: string }) {
  const { text, isWhole, bytes } = part
  const built = useAsync(() => colour(isWhole ? text : null, bytes, language), [isWhole ? text : null, bytes, language])
  // The text would flash while it is highlighted, so it is shown early only if it is still loading.
  if (built === null && isWhole) return <p class="fetching" aria-busy="true" />
  if (built === null || 'failed' in built) return <TextBlocks text={text} columns />
  return <Nodes of={built.ok} as="pre" class="source" tabIndex={0} />
}

async function colour(text: string | null, bytes: number, language: string): Promise<DocumentFragment> {
  if (text === null) throw new RangeError('not here to be highlighted')
  const { highlightCode, HIGHLIGHTED_BYTES_MAX } = await import('./highlight.ts')
  if (bytes > HIGHLIGHTED_BYTES_MAX) throw new RangeError('too long to be highlighted')
  const markup = mixesDirectionsTooOften(text) ? null : await highlightCode(text, language)
  if (markup === null) throw new RangeError('not to be highlighted')
  return sanitise(`<code>${markup}</code>`, { picture: () => null, file: () => null })
}
