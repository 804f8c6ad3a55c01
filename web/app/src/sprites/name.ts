import { grid as text } from '../messages/grid.ts'
import { cutText } from '@watchfire/pages/names'
import { plainName } from '../names/index.ts'
import { drawingOf } from './drawings.tsx'

/** The server's limit for the name of a sprite. */
const NAME_BYTES_MAX = 64

/** The displayed name of a sprite. Any client may have chosen it. */
export function nameOf({ sprite, picture }: { sprite: string; picture: string | null }): string {
  if (picture === null) return text(drawingOf(sprite).name)
  return plainName(sprite).trim() || text('aPicture')
}

/** The name for a picture from a file: the file name without its extension, shortened to fit. */
export function spriteNamed(filename: string): string {
  const stem = plainName(filename.replace(/\.[^.]*$/, '').toWellFormed()).trim()
  return cutText(stem, NAME_BYTES_MAX).trim() || 'picture'
}
