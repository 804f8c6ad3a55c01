interface ToggleProps {
  words: string
  isOn: boolean
  onChange: (isOn: boolean) => void
  title?: string
}

/** A switch with its words beside it. */
export function Toggle({ words, isOn, onChange, title }: ToggleProps) {
  return (
    <label class="toggle" title={title}>
      <input type="checkbox" role="switch" checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{words}</span>
    </label>
  )
}
