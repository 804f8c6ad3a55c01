import { indexOf } from '../files/directory.ts'
import type { PageFile } from '../ui/site.ts'
import { isBlank, type Draft, type Writing } from './draft.ts'
import { freeName } from './draft-files.ts'
import { writtenFile } from './written.ts'

const EXTENSIONS: Record<Writing, string> = { markdown: 'md', text: 'txt', html: 'html' }
const NAME_LENGTH_MAX = 48

/** The contents of the page that a draft becomes, and its name if it has one. */
export interface Bundle {
  files: readonly PageFile[]
  emptyFolders: readonly string[]
  /** Whether the page is a directory, even with a single file. */
  isDirectory: boolean
  filename: string | null
}

/**
 * A single file stays a file. A single folder is the page, so that its CID is the one of `watchfire cid`. A text with
 * files, or several files, become a directory. A copy of a directory stays one, with the same paths.
 */
export function bundle(draft: Draft): Bundle {
  const { writing, text, files, emptyFolders, original } = draft
  const [only] = files
  const main = original?.main?.writing === writing ? original.main.path : ''
  if (original?.kind === 'directory') {
    const filename = original.name
    if (isBlank(text)) return { files, emptyFolders, isDirectory: true, filename }
    const written = { path: main, blob: writtenFile(draft) }
    const isFree = main !== '' && files.every(({ path }) => path !== main)
    return {
      files: isFree ? [written, ...files] : withFirst(written.blob, EXTENSIONS[writing], files),
      emptyFolders,
      isDirectory: true,
      filename,
    }
  }
  if (isBlank(text)) {
    const folder = sharedFolder([...files.map(({ path }) => path), ...emptyFolders])
    if (folder !== null) {
      const below = (path: string) => path.slice(folder.length + 1)
      return {
        files: files.map(({ path, blob }) => ({ path: below(path), blob })),
        emptyFolders: emptyFolders.map(below),
        isDirectory: true,
        filename: folder,
      }
    }
    const isFile = files.length === 1 && emptyFolders.length === 0
    return { files, emptyFolders, isDirectory: !isFile, filename: isFile && only !== undefined ? only.path : null }
  }
  const extension = EXTENSIONS[writing]
  const name = nameOfText(text, writing)
  const blob = writtenFile(draft)
  if (files.length === 0 && emptyFolders.length === 0) {
    const filename = main || `${name}.${extension}`
    return { files: [{ path: filename, blob }], emptyFolders, isDirectory: false, filename }
  }
  return { files: withFirst(blob, extension, files), emptyFolders, isDirectory: true, filename: name }
}

/**
 * Puts what the person wrote beside the added files, so that the page opens with it. Added files keep their names, unless
 * they have every name that a page opens with.
 */
function withFirst(blob: Blob, extension: string, files: readonly PageFile[]): PageFile[] {
  const free = (path: string) => files.every((file) => file.path.toLowerCase() !== path)
  for (const stem of ['index', 'read-first']) {
    const path = `${stem}.${extension}`
    const together = [{ path, blob }, ...files]
    if (free(path) && indexOf(together)?.path === path) return together
  }
  const path = `read-first.${extension}`
  const renamed: PageFile[] = [{ path, blob }]
  for (const file of files) {
    const opensFirst = /^read-first\.(?:md|html|txt)$/i.test(file.path)
    renamed.push(opensFirst ? { ...file, path: freeName(`added-${file.path}`, [...renamed, ...files]) } : file)
  }
  return renamed
}

/** The folder that contains all of them; `null` when there is none. */
function sharedFolder(paths: readonly string[]): string | null {
  const [first = ''] = paths
  const end = first.indexOf('/')
  return end >= 0 && paths.every((path) => path.startsWith(first.slice(0, end + 1))) ? first.slice(0, end) : null
}

/** A file name from the first words of a text. */
export function nameOfText(text: string, writing: Writing): string {
  const titled = writing === 'html' ? (/<title[^>]*>([^<]+)/i.exec(text)?.[1] ?? '') : text
  const line = titled.split('\n').find((candidate) => /[\p{L}\p{N}]/u.test(candidate)) ?? ''
  const words = line
    .replace(/!\[[^\]]*\]\([^)]*\)/g, ' ')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    // Vowels of Hindi, tones of Thai and decomposed accents are marks, which belong to their letters.
    .replace(/[^\p{L}\p{M}\p{N}]+/gu, '-')
    .replace(/^-+|-+$/g, '')
  const letters = [...words].slice(0, NAME_LENGTH_MAX).join('')
  return letters.replace(/-+$/, '') || 'page'
}
