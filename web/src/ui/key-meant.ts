/** The key of a private page that a person means by a link to it, or by the key alone; `null` when there is none. */
export function keyMeant(text: string): string | null {
  const trimmed = text.trim()
  const alone = /^[\w-]{43}$/.exec(trimmed)?.[0]
  return alone ?? new URLSearchParams(trimmed.replace(/^[^#]*#?/, '')).get('key')
}
