import type { PageFile } from '../ui/site.ts'

/** Files of one drop; further ones are left out, and the person is notified. */
export const DROPPED_FILES_MAX = 2000

export interface Dropped {
  files: PageFile[]
  /** Whether there were more than `DROPPED_FILES_MAX`. */
  cut: boolean
}

/** The files of a drop, folders included, each with its path from the drop. */
export async function filesOfDrop(transfer: DataTransfer): Promise<Dropped> {
  // Entries must be read before the first await, because the browser then empties the transfer.
  const entries = [...transfer.items]
    .filter(({ kind }) => kind === 'file')
    .map((item) => item.webkitGetAsEntry())
    .filter((entry) => entry !== null)
  if (entries.length === 0) return { files: filesOf(transfer.files), cut: false }
  const files: PageFile[] = []
  const cut = !(await walk(entries, files))
  return { files, cut }
}

/** The files of a list, such as a picker's, under their own names. */
export function filesOf(list: FileList): PageFile[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, blob: file }))
}

/** Collects the files below; returns whether all of them were added. */
async function walk(entries: readonly FileSystemEntry[], into: PageFile[]): Promise<boolean> {
  for (const entry of entries) {
    if (into.length >= DROPPED_FILES_MAX) return false
    if (isDirectory(entry)) {
      if (!(await walk(await childrenOf(entry), into))) return false
    } else if (isFile(entry)) {
      const file = await new Promise<File>((resolve, reject) => entry.file(resolve, reject))
      into.push({ path: entry.fullPath.replace(/^\/+/, ''), blob: file })
    }
  }
  return true
}

/** `readEntries` returns a hundred entries at a time, then an empty list. */
async function childrenOf(directory: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = directory.createReader()
  const children: FileSystemEntry[] = []
  while (children.length < DROPPED_FILES_MAX) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject))
    if (some.length === 0) break
    children.push(...some)
  }
  return children
}

function isDirectory(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory
}

function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile
}
