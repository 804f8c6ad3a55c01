import { useEffect, useRef, useState } from 'preact/hooks'
import { keyMeant } from '../ui/key-meant.ts'
import { navigate } from '../ui/location.ts'
import { pageAddress } from '../ui/route.ts'
import { page as words } from '../words/page.ts'

interface LockedProps {
  cid: string
  filename: string | null
  /** What is wrong with the key or the page; `null` without a key. */
  reason: string | null
}

/** What stands in the place of a private page that is not open: what is missing, and a place for it. */
export function Locked({ cid, filename, reason }: LockedProps) {
  const [text, setText] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  const open = () => {
    const key = keyMeant(text)
    if (key === null) setProblem(words('noKey'))
    else navigate(pageAddress(cid, filename, key))
    field.current?.focus()
  }
  return (
    <section class="plain locked" aria-labelledby="locked">
      <h1 id="locked">{words(reason === null ? 'keyless' : 'closed')}</h1>
      <p role="alert">{reason ?? words('keylessWhy')}</p>
      <p>{words('holdClosed')}</p>
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
          aria-label={words('key')}
          placeholder={words('key')}
          enterkeyhint="go"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            setProblem(null)
            setText(event.currentTarget.value)
          }}
        />
        <button type="submit" class="strong" disabled={text.trim() === ''}>
          {words('open')}
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
