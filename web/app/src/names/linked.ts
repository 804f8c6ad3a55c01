import { cutName } from './cut.ts'
import { plainName } from '@watchfire/pages/messages'

const NAME_BYTES_MAX = 255

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
