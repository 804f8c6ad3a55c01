/** The key in a link to a private page, or a key alone; `null` when there is none. */
export function parseKeyInput(text: string): string | null {
  const trimmed = text.trim()
  const alone = /^[\w-]{43}$/.exec(trimmed)?.[0]
  return alone ?? new URLSearchParams(trimmed.replace(/^[^#]*#?/, '')).get('key')
}
