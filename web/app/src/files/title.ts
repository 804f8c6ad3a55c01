import { shownName } from '../names/index.ts'

/** Names that say where a folder begins, and nothing about its content. */
const INDEX = /^(?:index|readme|read-first)$/i

/** Whether the file is the first of its folder by its name, whose title is the name of the folder. */
export function namesFolder(path: string): boolean {
  return INDEX.test(baseOf(path))
}

/**
 * The title of a file for its reader: its name without the extension, and with spaces where a name without any has hyphens between words.
 * The first file of a folder has the name of its folder.
 */
export function titleOf(path: string, page: string | null): string {
  const folders = path.split('/').slice(0, -1)
  const base = baseOf(path)
  const title = /\s/.test(base) ? base : base.replace(/(?<=\p{L})[-_]+(?=\p{L})/gu, ' ')
  const folder = folders.at(-1) ?? page
  return shownName(INDEX.test(base) && folder ? folder : title)
}

/** The name of a file without its folders and its extension. */
function baseOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return name.replace(/(?<=.)\.(?=\d*[a-z])[a-z0-9]{1,9}$/i, '')
}
