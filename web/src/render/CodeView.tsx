import { useAwaited } from './awaited.ts'
import { Built } from './Built.tsx'
import { sanitise } from './sanitise.ts'
import { textOf } from './text.ts'

/** Source code, coloured when it is short enough. */
export function CodeView({ blob, language }: { blob: Blob; language: string }) {
  const read = useAwaited(() => textOf(blob), [blob])
  const text = read !== null && 'ok' in read ? read.ok.text : null
  const colours = useAwaited(async () => (text === null ? null : colour(text, language)), [text, language])
  if (text === null || read === null || 'failed' in read) return <p class="fetching" aria-busy={read === null} />
  const built = colours !== null && 'ok' in colours ? colours.ok : null
  return (
    <>
      {built === null && (
        <pre class="source" tabIndex={0}>
          <code>{text}</code>
        </pre>
      )}
      {built !== null && <Built of={built} as="pre" class="source" tabIndex={0} />}
      {read.ok.cut !== null && <p class="notice">{read.ok.cut}</p>}
    </>
  )
}

async function colour(text: string, language: string): Promise<DocumentFragment | null> {
  const { coloured, COLOURED_BYTES_MAX } = await import('./highlight.ts')
  if (text.length > COLOURED_BYTES_MAX) return null
  const markup = await coloured(text, language)
  return markup === null ? null : sanitise(`<code>${markup}</code>`, { picture: () => null, file: () => null })
}
