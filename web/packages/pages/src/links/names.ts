import { plainName } from '../messages/index.ts'

const utf8 = new TextEncoder()
/** The longest name in a link and of an entry of a live page. */
export const NAME_BYTES_MAX = 255

/** The name that a link gives a page, without folders and hidden characters; `null` when nothing is left of it. */
export function linkedName(given: string | null): string | null {
  if (given === null) return null
  const name = cutName(
    plainName(given)
      .replace(/^.*[/\\]/, '')
      .trim(),
    NAME_BYTES_MAX,
  )
  return name === '' || name === '.' || name === '..' ? null : name
}

/** The bytes of a text in UTF-8. */
export function byteLength(text: string): number {
  return utf8.encode(text).length
}

/** Shortens a name to that many bytes, and keeps a short extension. */
export function cutName(name: string, bytesMax: number): string {
  if (byteLength(name) <= bytesMax) return name
  const ending = /(?<=.)\.[^.]{1,16}$/su.exec(name)?.[0] ?? ''
  return cutText(name.slice(0, name.length - ending.length), bytesMax - byteLength(ending)) + ending
}

/** Shortens a text to that many bytes. */
export function cutText(text: string, bytesMax: number): string {
  let kept = ''
  let bytes = 0
  for (const letter of text) {
    bytes += byteLength(letter)
    if (bytes > bytesMax) break
    kept += letter
  }
  return kept
}
