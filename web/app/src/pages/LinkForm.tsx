import { useEffect, useRef, useState } from 'preact/hooks'

interface LinkFormProps {
  /** The name of the field, which says what to type. */
  label: string
  /** The words on the button. */
  action: string
  enterkeyhint: 'done' | 'go'
  /** Whether the field has the focus at first. */
  isFirst?: boolean
  /** Whether the field is empty after its text was used. */
  clears?: boolean
  /** Uses the text. Returns why it cannot, or `null`. */
  use: (text: string) => string | null
}

/** A form with one field, for a link or a part of one. */
export function LinkForm({ label, action, enterkeyhint, isFirst = false, clears = false, use }: LinkFormProps) {
  const [text, setText] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (isFirst) field.current?.focus()
  }, [])
  return (
    <form
      class="bar"
      onSubmit={(event) => {
        event.preventDefault()
        const reason = use(text)
        if (reason !== null) setProblem(reason)
        else if (clears) setText('')
        field.current?.focus()
      }}
    >
      <input
        ref={field}
        class="link"
        dir="ltr"
        aria-label={label}
        placeholder={label}
        enterkeyhint={enterkeyhint}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setProblem(null)
          setText(event.currentTarget.value)
        }}
      />
      <button type="submit" class="strong" disabled={text.trim() === ''}>
        {action}
      </button>
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
    </form>
  )
}
