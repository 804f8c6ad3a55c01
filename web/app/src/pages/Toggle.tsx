interface ToggleProps {
  label: string
  isOn: boolean
  onChange: (isOn: boolean) => void
  title?: string
  /** The id of the text that explains the switch. */
  means?: string
}

/** A switch with a label. */
export function Toggle({ label, isOn, onChange, title, means }: ToggleProps) {
  return (
    <label class="toggle" title={title}>
      <input
        type="checkbox"
        // biome-ignore lint/a11y/useAriaPropsForRole: `checked` of a checkbox says it already
        role="switch"
        checked={isOn}
        title={title}
        aria-describedby={means}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{label}</span>
    </label>
  )
}
