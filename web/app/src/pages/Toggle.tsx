interface ToggleProps {
  label: string
  isOn: boolean
  onChange: (isOn: boolean) => void
  /** The id of the text that explains the switch. */
  means?: string
}

/** A switch with a label. */
export function Toggle({ label, isOn, onChange, means }: ToggleProps) {
  return (
    <label class="toggle">
      <input
        type="checkbox"
        // biome-ignore lint/a11y/useAriaPropsForRole: `checked` of a checkbox says it already
        role="switch"
        checked={isOn}
        aria-describedby={means}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{label}</span>
    </label>
  )
}
