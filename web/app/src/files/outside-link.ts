/** Makes a link open an address outside of the page, which learns nothing of where it was clicked. */
export function openOutside(link: HTMLAnchorElement, address: URL): void {
  link.setAttribute('href', address.href)
  link.setAttribute('rel', 'noopener noreferrer nofollow')
  link.setAttribute('target', '_blank')
}

/** An absolute http, https or mailto URL; `null` for every other scheme and for relative ones. */
export function outsideAddress(reference: string): URL | null {
  const absolute = /^\s*[/\\]{2}/.test(reference) ? `https:${reference.trim()}` : reference
  if (!URL.canParse(absolute)) return null
  const address = new URL(absolute)
  return ['http:', 'https:', 'mailto:'].includes(address.protocol) ? address : null
}
