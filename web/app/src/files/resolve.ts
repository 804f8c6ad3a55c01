/**
 * Resolves a relative reference to a file of the same directory, as a path from the directory's
 * root; `null` for references to another site, above the root, or to nothing.
 *
 * @param from path of the file that contains the reference, such as `notes/index.md`
 */
export function resolveName(reference: string, from: string): string | null {
  const trimmed = reference.trim()
  if (isElsewhere(trimmed)) return null
  let path: string
  try {
    path = decodeURIComponent(trimmed.replace(/[?#].*$/s, ''))
  } catch {
    return null
  }
  if (path === '' || path.includes('\0')) return null
  const steps = path.startsWith('/') ? [] : from.split('/').slice(0, -1)
  for (const step of path.split('/')) {
    if (step === '' || step === '.') continue
    if (step !== '..') steps.push(step)
    else if (steps.pop() === undefined) return null
  }
  return steps.length === 0 ? null : steps.join('/')
}

/** Whether a reference has a scheme or a host, by the rules of browsers. */
export function isElsewhere(reference: string): boolean {
  // Browsers ignore tabs and newlines anywhere in a URL, and read a backslash as a slash.
  const address = reference.replace(/[\t\n\r]/g, '').replace(/^[\0-\x20]+/, '')
  return /^(?:[a-z][a-z0-9+.-]*:|[/\\]{2})/i.test(address)
}
