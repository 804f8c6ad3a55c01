import { forEachItem, ItemCount, sorted, type PausingWork } from '@watchfire/pages/content'
import { indexOf } from '../files/directory.ts'
import { language } from '../messages/language.ts'
import { caseless } from '../names/index.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { isAlbum, isPicture } from './album.ts'

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

/** A folder as it is shown: the lines of its list, and its pictures. */
export interface Arrangement {
  /** With a gallery, the lines of the other files. */
  readonly rows: readonly Row[]
  readonly pictures: readonly DirectoryFile[]
  /** The number of all pictures, with those that the words leave out. */
  readonly pictureCount: number
  /** Whether the pictures are shown in a gallery. */
  readonly isGallery: boolean
}

export interface ArrangementOptions {
  readonly order: Order
  /** Only files whose paths contain these words are listed, without their folders. Empty for all. */
  readonly words: string
  /** Whether the reader chose the gallery; `null` without a choice. */
  readonly isGallery: boolean | null
  /** Whether a folder is open, in a tree of this many lines. */
  readonly isOpen: (path: string, lines: number) => boolean
}

/** Arranges the files of a page. */
export function* arranged(files: readonly DirectoryFile[], options: ArrangementOptions): PausingWork<Arrangement> {
  const { order, words, isOpen } = options
  const count = new ItemCount()
  const allPictures: DirectoryFile[] = []
  const others: DirectoryFile[] = []
  yield* forEachItem(files, (file) => (isPicture(file) ? allPictures : others).push(file), count)
  const pictureCount = allPictures.length
  // Pictures beside a text or in a site are seen there.
  const isGallery = options.isGallery ?? (isAlbum(pictureCount, files.length) && indexOf(files) === null)
  const pictures = yield* matching(allPictures, words, order, count)
  const listed = isGallery ? others : files
  if (words !== '') return { rows: yield* matchingRows(listed, words, order, count), pictures, pictureCount, isGallery }
  const tree = yield* treeOf(listed, count)
  return { rows: yield* rowsOf(tree, order, (path) => isOpen(path, tree.lines), count), pictures, pictureCount, isGallery }
}

/** Arranges files by the folders in their paths. */
export function* treeOf(files: readonly DirectoryFile[], count = new ItemCount()): PausingWork<Folder> {
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
  yield* forEachItem(files, (file) => folderAt(parentOf(file.path)).files.push(file), count)
  // A folder is made after the folders around it, so that backwards each is complete before it is added to its parent.
  const addUp = (each: Folder) => {
    each.count = each.files.length + each.folders.reduce((sum, { count }) => sum + count, 0)
    each.lines = each.files.length + each.folders.reduce((sum, { lines }) => sum + 1 + lines, 0)
    each.bytes = each.files.reduce((sum, { size }) => sum + size, 0) + each.folders.reduce((sum, { bytes }) => sum + bytes, 0)
  }
  yield* forEachItem([...byPath.values()].reverse(), addUp, count)
  return root
}

/** The lines of the list: in each folder its folders, then its files, in this order. */
export function* rowsOf(root: Folder, order: Order, isOpen: (path: string) => boolean, count = new ItemCount()): PausingWork<Row[]> {
  const rows: Row[] = []
  const byOrder = orderings(order)
  const list = function* ({ folders, files }: Folder, depth: number): PausingWork<void> {
    for (const folder of yield* sorted(folders, byOrder.folders, count)) {
      const open = isOpen(folder.path)
      rows.push({ kind: 'folder', folder, depth, isOpen: open })
      if (open) yield* list(folder, depth + 1)
    }
    const inOrder = yield* sorted(files, byOrder.files, count)
    yield* forEachItem(inOrder, (file) => rows.push({ kind: 'file', file, depth, name: nameOf(file.path) }), count)
  }
  yield* list(root, 0)
  return rows
}

/** The lines of the files whose paths contain these words, in this order, without their folders. */
export function* matchingRows(files: readonly DirectoryFile[], words: string, order: Order, count = new ItemCount()): PausingWork<Row[]> {
  const rows: Row[] = []
  const inOrder = yield* matching(files, words, order, count)
  yield* forEachItem(inOrder, (file) => rows.push({ kind: 'file', file, depth: 0, name: file.path }), count)
  return rows
}

function* matching(files: readonly DirectoryFile[], words: string, order: Order, count: ItemCount): PausingWork<readonly DirectoryFile[]> {
  const wanted = caseless(words)
  const found: DirectoryFile[] = []
  yield* forEachItem(files, (file) => caseless(file.path).includes(wanted) && found.push(file), count)
  return yield* sorted(found, orderings(order).files, count)
}

interface Orderings {
  files(a: DirectoryFile, b: DirectoryFile): number
  folders(a: Folder, b: Folder): number
}

/** The largest and the newest come first; equal ones, and all others, are in the order of their names as people read them. */
export function orderings(order: Order): Orderings {
  const { compare } = new Intl.Collator(language.peek().tag, { numeric: true })
  const byPath = (a: DirectoryFile, b: DirectoryFile) => compare(a.path, b.path)
  const byName = (a: Folder, b: Folder) => compare(a.name, b.name)
  switch (order) {
    case 'name':
      return { files: byPath, folders: byName }
    case 'size':
      return { files: (a, b) => b.size - a.size || byPath(a, b), folders: (a, b) => b.bytes - a.bytes || byName(a, b) }
    case 'date':
      return { files: (a, b) => (b.modified ?? -Infinity) - (a.modified ?? -Infinity) || byPath(a, b), folders: byName }
    case 'kind':
      return { files: (a, b) => compare(extensionOf(a.path), extensionOf(b.path)) || byPath(a, b), folders: byName }
  }
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
