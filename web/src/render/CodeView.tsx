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
      <pre class="source">{built === null ? <code>{text}</code> : <Built of={built} as="code" />}</pre>
      {read.ok.cut !== null && <p class="notice">{read.ok.cut}</p>}
    </>
  )
}

async function colour(text: string, language: string): Promise<DocumentFragment | null> {
  const { coloured, COLOURED_BYTES_MAX } = await import('./highlight.ts')
  if (text.length > COLOURED_BYTES_MAX) return null
  const markup = await coloured(text, language)
  // The parser drops the first newline of a pre, and nothing else of what it is given here.
  return markup === null ? null : sanitise(`<pre>\n${markup}</pre>`, { picture: () => null, file: () => null })
}
