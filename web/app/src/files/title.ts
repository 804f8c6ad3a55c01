import { shownName } from '../names/index.ts'

/** Names that say where a folder begins, and nothing about its content. */
const INDEX = /^(?:index|readme|read-first)$/i

/** The title of a file, and where it is. Together they have each name once. */
interface Title {
  readonly title: string
  readonly place: string | null
}

/** Whether the file is the first of its folder by its name, whose title is the name of the folder. */
export function namesFolder(path: string): boolean {
  return INDEX.test(nameOf(path).replace(/(?<=.)\.(?=\d*[a-z])[a-z0-9]{1,9}$/i, ''))
}

/** The title of a file is its name, below the folders around it. The first file of a folder has the name of its folder. */
export function titleOf(path: string, page: string | null): Title {
  const name = nameOf(path)
  const folders = path.slice(0, -name.length - 1)
  const folder = folders === '' ? page : nameOf(folders)
  if (folder && namesFolder(path)) return { title: shownName(folder), place: shownName(path) }
  return { title: shownName(name), place: folders === '' ? null : shownName(folders) }
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
