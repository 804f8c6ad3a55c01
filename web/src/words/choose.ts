/**
 * The first language that a person reads and that there is, without what says too much: `de-AT` finds `de` (the lookup
 * of RFC 4647). `null` is English, which there always is.
 */
export function choose(tags: readonly string[], isThere: (tag: string) => boolean): string | null {
  for (const wanted of tags) {
    for (let tag = wanted; tag !== ''; tag = tag.slice(0, Math.max(0, tag.lastIndexOf('-')))) {
      if (isThere(tag)) return tag
      if (tag === 'en') return null
    }
  }
  return null
}
