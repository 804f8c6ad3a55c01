import { shownName } from '../names/index.ts'

/** Names that say where a folder begins, and nothing about its content. */
const INDEX = /^(?:index|readme|read-first)$/i

/**
 * The title of a file for its reader: its name without the extension, and with spaces where a name without any has hyphens between words.
 * The first file of a folder has the name of its folder.
 */
export function titleOf(path: string, page: string | null): string {
  const folders = path.split('/')
  const name = folders.pop() ?? path
  const base = name.replace(/(?<=.)\.(?=\d*[a-z])[a-z0-9]{1,9}$/i, '')
  const title = /\s/.test(base) ? base : base.replace(/(?<=\p{L})[-_]+(?=\p{L})/gu, ' ')
  const folder = folders.at(-1) ?? page
  return shownName(INDEX.test(base) && folder ? folder : title)
}
