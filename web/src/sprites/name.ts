import { grid as text } from '../messages/grid.ts'
import { drawingOf } from './drawings.tsx'

/** The server's limit for the name of a sprite. */
const NAME_BYTES_MAX = 64
/** Control characters, and those that change the direction of the surrounding text. */
const UNSEEMLY = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** The displayed name of a sprite. Any client may have chosen it. */
export function nameOf({ sprite, picture }: { sprite: string; picture: string | null }): string {
  if (picture === null) return text(drawingOf(sprite).name)
  return sprite.replace(UNSEEMLY, '').trim() || text('aPicture')
}

/** The name for a picture from a file: the file name without its extension, shortened to fit. */
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
