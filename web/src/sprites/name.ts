import { plane as words } from '../words/plane.ts'
import { drawingOf } from './drawings.tsx'

/** The server's bound of what a sprite is called. */
const NAME_BYTES_MAX = 64
/** Control characters, and those that turn the direction of the words around them. */
const UNSEEMLY = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** What a sprite is called here. A stranger may have named it. */
export function nameOf({ sprite, picture }: { sprite: string; picture: string | null }): string {
  if (picture === null) return words(drawingOf(sprite).name)
  return sprite.replace(UNSEEMLY, '').trim() || words('aPicture')
}

/** What a picture from a file is thrown as: the file's name without its ending, as far as it fits. */
export function spriteNamed(filename: string): string {
  const stem = filename.replace(/\.[^.]*$/, '').toWellFormed().replace(UNSEEMLY, '').trim()
  let name = ''
  let bytes = 0
  for (const letter of stem) {
    bytes += new TextEncoder().encode(letter).length
    if (bytes > NAME_BYTES_MAX) break
    name += letter
  }
  return name.trim() || 'picture'
}
