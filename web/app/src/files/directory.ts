import { sameness } from '../names/index.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { resolveName } from './resolve.ts'

/** The first three are for what a person wrote, when an added file has one of the other names. */
const INDEX_NAMES = [
  'read-first.md',
  'read-first.html',
  'read-first.txt',
  'index.md',
  'index.html',
  'readme.md',
  'index.htm',
  'index.txt',
  'readme.txt',
  'readme',
]

const RANKS = new Map(INDEX_NAMES.map((name, i) => [name, i]))
const LONGEST = Math.max(...INDEX_NAMES.map(({ length }) => length))

/** The file that a directory opens with; `null` when it only shows its list. */
export function indexOf<File extends { readonly path: string }>(files: readonly File[]): File | null {
  let found: File | null = null
  let best = INDEX_NAMES.length
  for (const file of files) {
    // A page has thousands of files, and few of them begin so.
    if (file.path.length > LONGEST || !/^[ri]/i.test(file.path)) continue
    const rank = RANKS.get(file.path.toLowerCase()) ?? best
    if (rank < best) {
      best = rank
      found = file
    }
  }
  return found
}

/** Finds the file that a reference in `from` names. */
export function findReferencedFile(files: readonly DirectoryFile[], reference: string, from: string): DirectoryFile | null {
  const path = resolveName(reference, from)
  return path === null ? null : fileAt(files, path)
}

/** Finds the file that a link in `from` names. Of a folder, it is the file with which it opens, or its first one. */
export function findReferencedPlace(files: readonly DirectoryFile[], reference: string, from: string): DirectoryFile | null {
  const path = resolveName(reference, from)
  if (path === null) return null
  const file = fileAt(files, path)
  if (file !== null) return file
  const folder = `${sameness(path)}/`
  const below = files.filter((each) => sameness(each.path).startsWith(folder))
  const named = below.map((each) => ({ path: sameness(each.path).slice(folder.length), file: each }))
  return indexOf(named)?.file ?? below[0] ?? null
}

/** The file of this path: with exactly these names, or with others that are the same to people. */
export function fileAt(files: readonly DirectoryFile[], path: string): DirectoryFile | null {
  const same = sameness(path)
  return files.find((file) => file.path === path) ?? files.find((file) => sameness(file.path) === same) ?? null
}
