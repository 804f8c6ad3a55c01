import type { PageFile } from '../ui/site.ts'

export type Writing = 'markdown' | 'text' | 'html'

const EXTENSIONS: Record<Writing, string> = { markdown: 'md', text: 'txt', html: 'html' }
const NAME_LENGTH_MAX = 48

/** The contents of the home page before they are shared. */
export interface Draft {
  writing: Writing
  text: string
  files: readonly PageFile[]
}

/** The files of the page that a draft becomes, and its name if it has one. */
export interface Bundle {
  files: readonly PageFile[]
  filename: string | null
}

export function isEmpty({ text, files }: Draft): boolean {
  return text.trim() === '' && files.length === 0
}

/** Bytes of the page's content, without the nodes that link it together. */
export function draftBytes({ text, files }: Draft): number {
  const written = text.trim() === '' ? 0 : new Blob([text]).size
  return files.reduce((sum, { blob }) => sum + blob.size, written)
}

/** A single file stays a file; a text with files, or several files, become a directory. */
export function bundle(draft: Draft): Bundle {
  const { writing, text, files } = draft
  const [only] = files
  if (text.trim() === '') {
    if (files.length === 1 && only !== undefined && !only.path.includes('/')) {
      return { files, filename: only.path }
    }
    return { files, filename: sharedFolder(files) }
  }
  const extension = EXTENSIONS[writing]
  const name = nameOfText(text, writing)
  const blob = new Blob([text])
  if (files.length === 0) {
    const filename = `${name}.${extension}`
    return { files: [{ path: filename, blob }], filename }
  }
  const path = freeName(`index.${extension}`, files)
  return { files: [{ path, blob }, ...files], filename: name }
}

/** The folder that contains all of them; `null` when there is none. */
function sharedFolder(files: readonly PageFile[]): string | null {
  const folders = new Set(files.map(({ path }) => (path.includes('/') ? path.split('/', 1)[0] : null)))
  const [only] = folders
  return folders.size === 1 ? only ?? null : null
}

/** A file name from the first words of a text. */
export function nameOfText(text: string, writing: Writing): string {
  const titled = writing === 'html' ? /<title[^>]*>([^<]+)/i.exec(text)?.[1] ?? '' : text
  const line = titled.split('\n').find((candidate) => candidate.trim() !== '') ?? ''
  const words = line
    .replace(/!\[[^\]]*\]\([^)]*\)/g, ' ')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-+|-+$/g, '')
  const letters = [...words].slice(0, NAME_LENGTH_MAX).join('')
  return letters.replace(/-+$/, '') || 'page'
}

/** Returns `name`, or `name-2` and so on when the draft has a file of that name. */
export function freeName(name: string, files: readonly PageFile[]): string {
  const taken = new Set(files.map(({ path }) => path))
  const dot = name.lastIndexOf('.')
  const [stem, extension] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, '']
  let free = name
  for (let n = 2; taken.has(free); n += 1) free = `${stem}-${n}${extension}`
  return free
}

/** A valid path in a directory: no `..`, no empty segments, no control characters. */
export function tidyPath(path: string): string {
  const steps = path
    .replace(/\p{Cc}/gu, '')
    .split('/')
    .filter((step) => step !== '' && step !== '.' && step !== '..')
  return steps.join('/') || 'file'
}

/** Adds files under unused names. */
export function withFiles(draft: Draft, added: readonly PageFile[]): Draft {
  const files = [...draft.files]
  for (const { path, blob } of added) files.push({ path: freeName(tidyPath(path), files), blob })
  return { ...draft, files }
}

/** The Markdown for a picture of the same page. */
export function pictureMarkup(path: string): string {
  const words = path.replace(/^.*\//, '').replace(/\.[^.]*$/, '').replace(/[[\]\\]/g, ' ')
  const address = path.split('/').map(encodeURIComponent).join('/').replace(/[()]/g, (bracket) =>
    bracket === '(' ? '%28' : '%29')
  return `![${words}](${address})`
}
