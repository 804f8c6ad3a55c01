const KEY = /(?<![\w-])([\w-]{43})(?![\w-])/

/**
 * The key in a link to a private page, or a key alone; `null` when there is none. Marks and words around it are not part of
 * it.
 */
export function parseKeyInput(text: string): string | null {
  const labelled = /(?:^|[^\w-])key=([\w-]{43})(?![\w-])/.exec(text)?.[1]
  if (labelled !== undefined) return labelled
  const fragment = text.includes('#') ? text.replace(/^[^#]*#/, '') : null
  // A key of another length is returned too: the page says that it does not fit.
  if (fragment !== null) return new URLSearchParams(fragment.trim()).get('key')
  // A link without a key has a CID, which is longer.
  return KEY.exec(text)?.[1] ?? null
}
