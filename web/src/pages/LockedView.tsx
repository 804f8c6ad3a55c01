import { useEffect, useRef, useState } from 'preact/hooks'
import { parseKeyInput } from '../ui/parse-typed-key.ts'
import { navigate } from '../ui/location.ts'
import { pageAddress } from '../ui/route.ts'
import { page as text } from '../messages/page.ts'

interface LockedProps {
  cid: string
  filename: string | null
  /** The problem with the key or the page; `null` without a key. */
  reason: string | null
}

/** Shown in place of a private page that is not open: the reason, and a field for the link or key. */
export function LockedView({ cid, filename, reason }: LockedProps) {
  const [input, setInput] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  const open = () => {
    const key = parseKeyInput(input)
    if (key === null) setProblem(text('noKey'))
    else navigate(pageAddress(cid, filename, key))
    field.current?.focus()
  }
  return (
    <section class="plain locked" aria-labelledby="locked">
      <h1 id="locked">{text(reason === null ? 'keyless' : 'closed')}</h1>
      <p role="alert">{reason ?? text('keylessWhy')}</p>
      <p>{text('keepUnread')}</p>
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault()
          open()
        }}
      >
        <input
          ref={field}
          class="link"
          dir="ltr"
          aria-label={text('key')}
          placeholder={text('key')}
          enterkeyhint="go"
          autocomplete="off"
          spellcheck={false}
          value={input}
          onInput={(event) => {
            setProblem(null)
            setInput(event.currentTarget.value)
          }}
        />
        <button type="submit" class="strong" disabled={input.trim() === ''}>
          {text('open')}
        </button>
        {problem !== null && (
          <p class="notice bad" role="alert">
            {problem}
          </p>
        )}
      </form>
    </section>
  )
}
