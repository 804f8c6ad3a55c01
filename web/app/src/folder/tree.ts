import { language } from '../messages/language.ts'
import type { DirectoryFile } from '../ui/site.ts'

export type Order = 'name' | 'size' | 'date' | 'kind'

/** A folder with everything below it. */
export interface Folder {
  readonly path: string
  readonly name: string
  readonly folders: Folder[]
  readonly files: DirectoryFile[]
  /** Files in it and below it, and their bytes. */
  count: number
  bytes: number
  /** Lines of the list when all folders below it are open. */
  lines: number
}

/** A line of the list. `depth` is the number of open folders around it. */
export type Row =
  | { readonly kind: 'folder'; readonly folder: Folder; readonly depth: number; readonly isOpen: boolean }
  | { readonly kind: 'file'; readonly file: DirectoryFile; readonly depth: number; readonly name: string }

/** Arranges files by the folders in their paths. */
export function treeOf(files: readonly DirectoryFile[]): Folder {
  const root = emptyFolder('', '')
  const byPath = new Map([['', root]])
  const folderAt = (path: string): Folder => {
    const known = byPath.get(path)
    if (known !== undefined) return known
    const parent = folderAt(parentOf(path))
    const made = emptyFolder(path, nameOf(path))
    parent.folders.push(made)
    byPath.set(path, made)
    return made
  }
  for (const file of files) folderAt(parentOf(file.path)).files.push(file)
  // A folder is made after the folders around it, so that backwards each is complete before it is added to its parent.
  for (const each of [...byPath.values()].reverse()) {
    each.count = each.files.length + each.folders.reduce((sum, { count }) => sum + count, 0)
    each.lines = each.files.length + each.folders.reduce((sum, { lines }) => sum + 1 + lines, 0)
    each.bytes = each.files.reduce((sum, { size }) => sum + size, 0) + each.folders.reduce((sum, { bytes }) => sum + bytes, 0)
  }
  return root
}

/** The lines of the list: in each folder its folders, then its files, in this order. */
export function rowsOf(root: Folder, order: Order, isOpen: (path: string) => boolean): Row[] {
  const rows: Row[] = []
  const list = ({ folders, files }: Folder, depth: number): void => {
    for (const folder of sortedFolders(folders, order)) {
      const open = isOpen(folder.path)
      rows.push({ kind: 'folder', folder, depth, isOpen: open })
      if (open) list(folder, depth + 1)
    }
    for (const file of sortedFiles(files, order)) rows.push({ kind: 'file', file, depth, name: nameOf(file.path) })
  }
  list(root, 0)
  return rows
}

/** The files whose paths contain these words, in this order, without their folders. */
export function matchingRows(files: readonly DirectoryFile[], words: string, order: Order): Row[] {
  const wanted = words.toLowerCase()
  const found = files.filter(({ path }) => path.toLowerCase().includes(wanted))
  return sortedFiles(found, order).map((file) => ({ kind: 'file', file, depth: 0, name: file.path }))
}

/** The largest and the newest come first; equal ones, and all others, are in the order of their names as people read them. */
export function sortedFiles(files: readonly DirectoryFile[], order: Order): DirectoryFile[] {
  const { compare } = new Intl.Collator(language.peek().tag, { numeric: true })
  const byName = (a: DirectoryFile, b: DirectoryFile) => compare(a.path, b.path)
  switch (order) {
    case 'name':
      return [...files].sort(byName)
    case 'size':
      return [...files].sort((a, b) => b.size - a.size || byName(a, b))
    case 'date':
      return [...files].sort((a, b) => (b.modified ?? -Infinity) - (a.modified ?? -Infinity) || byName(a, b))
    case 'kind':
      return [...files].sort((a, b) => compare(extensionOf(a.path), extensionOf(b.path)) || byName(a, b))
  }
}

function sortedFolders(folders: readonly Folder[], order: Order): Folder[] {
  const { compare } = new Intl.Collator(language.peek().tag, { numeric: true })
  const byName = (a: Folder, b: Folder) => compare(a.name, b.name)
  return [...folders].sort(order === 'size' ? (a, b) => b.bytes - a.bytes || byName(a, b) : byName)
}

function emptyFolder(path: string, name: string): Folder {
  return { path, name, folders: [], files: [], count: 0, bytes: 0, lines: 0 }
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}

function extensionOf(path: string): string {
  const [, extension = ''] = /\.([^./]+)$/.exec(path) ?? []
  return extension.toLowerCase()
}
