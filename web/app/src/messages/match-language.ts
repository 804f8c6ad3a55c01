/**
 * The first preferred language that exists, also under a shorter tag: `de-AT` matches `de` (the lookup
 * of RFC 4647). `null` means English, which always exists.
 */
export function matchLanguage(tags: readonly string[], isThere: (tag: string) => boolean): string | null {
  for (const wanted of tags) {
    for (let tag = wanted; tag !== ''; tag = tag.slice(0, Math.max(0, tag.lastIndexOf('-')))) {
      if (isThere(tag)) return tag
      if (tag === 'en') return null
    }
  }
  return null
}
