const utf8 = new TextEncoder()

/** The bytes of a text in UTF-8. */
export function bytesOf(text: string): number {
  return utf8.encode(text).length
}

/** Shortens a name to that many bytes, and keeps a short extension. */
export function cutName(name: string, bytesMax: number): string {
  if (bytesOf(name) <= bytesMax) return name
  const ending = /(?<=.)\.[^.]{1,16}$/su.exec(name)?.[0] ?? ''
  return cutText(name.slice(0, name.length - ending.length), bytesMax - bytesOf(ending)) + ending
}

/** Shortens a text to that many bytes. */
export function cutText(text: string, bytesMax: number): string {
  let kept = ''
  let bytes = 0
  for (const letter of text) {
    bytes += bytesOf(letter)
    if (bytes > bytesMax) break
    kept += letter
  }
  return kept
}
