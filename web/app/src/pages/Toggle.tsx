interface ToggleProps {
  label: string
  isOn: boolean
  onChange: (isOn: boolean) => void
  title?: string
}

/** A switch with a label. */
export function Toggle({ label, isOn, onChange, title }: ToggleProps) {
  return (
    <label class="toggle" title={title}>
      {/* biome-ignore lint/a11y/useAriaPropsForRole: `checked` of a checkbox says it already */}
      <input type="checkbox" role="switch" checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  )
}
