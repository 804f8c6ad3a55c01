import type { PageFile } from '../ui/site.ts'
import { isBlank, type Draft } from './draft.ts'

/** Returns `name`, or `name-2` and so on when there is a file of that name. */
export function freeName(name: string, files: readonly PageFile[], taken = new Set(files.map(({ path }) => path))): string {
  if (!taken.has(name)) return name
  // An extension begins after the first letter of a name: folders and hidden files have dots too.
  const [, stem = name, extension = ''] = /^(.*[^/])(\.[^./]*)$/s.exec(name) ?? []
  for (let n = 2; ; n += 1) {
    const free = `${stem}-${n}${extension}`
    if (!taken.has(free)) return free
  }
}

/** A control character, or a segment that is empty, `.` or `..`. */
const UNTIDY = /\p{Cc}|(?:^|\/)\.{0,2}(?:\/|$)/u

/** A valid path in a directory: no `..`, no empty segments, no control characters. */
export function tidyPath(path: string): string {
  // Almost every path is valid, and a folder has thousands.
  if (!UNTIDY.test(path)) return path
  const steps = path
    .replace(/\p{Cc}/gu, '')
    .split('/')
    .filter((step) => step !== '' && step !== '.' && step !== '..')
  return steps.join('/') || 'file'
}

/** Adds files under unused names, and empty folders. */
export function withFiles(draft: Draft, added: readonly PageFile[], emptyFolders: readonly string[] = []): Draft {
  const files = [...draft.files]
  const taken = new Set(files.map(({ path }) => path))
  for (const { path, blob } of added) {
    const free = freeName(tidyPath(path), files, taken)
    taken.add(free)
    files.push({ path: free, blob })
  }
  const folders = new Set([...draft.emptyFolders, ...emptyFolders.map(tidyPath)])
  return { ...draft, files, emptyFolders: [...folders].filter((folder) => !taken.has(folder)) }
}

/** Puts files that the draft had before in front of its own, which get other names where theirs are taken. */
export function withEarlier(draft: Draft, { files, emptyFolders }: Pick<Draft, 'files' | 'emptyFolders'>): Draft {
  return withFiles({ ...draft, files, emptyFolders }, draft.files, draft.emptyFolders)
}

/** Removes files, and with the last one of a folder the empty folders in it, which are not shown. */
export function without(draft: Draft, gone: readonly PageFile[]): Draft {
  const left = new Set(draft.files)
  for (const file of gone) left.delete(file)
  const files = [...left]
  const folders = new Set(files.map(({ path }) => topOf(path)))
  const ended = new Set(gone.map(({ path }) => topOf(path)).filter((top) => !folders.has(top)))
  const emptyFolders = files.length > 0 ? draft.emptyFolders.filter((path) => !ended.has(topOf(`${path}/`))) : []
  return { ...draft, files, emptyFolders }
}

/** The folder with which a path begins; `null` of a file that is in none. */
function topOf(path: string): string | null {
  const end = path.indexOf('/')
  return end < 0 ? null : path.slice(0, end)
}

/** Files of a draft that are shown as one: those of a folder, a single one, or many. */
export interface Group {
  /** `null` of files that are in no folder, or in several. */
  readonly folder: string | null
  readonly files: readonly PageFile[]
}

/** More than that would push the rest of the editor out of the window. */
const GROUPS_MAX = 6

export function groupsOf(files: readonly PageFile[]): Group[] {
  const byFolder = new Map<string | null, PageFile[]>()
  for (const file of files) {
    const top = topOf(file.path)
    const known = byFolder.get(top)
    if (known === undefined) byFolder.set(top, [file])
    else known.push(file)
  }
  const outside = byFolder.get(null) ?? []
  byFolder.delete(null)
  const folders = [...byFolder].map(([folder, files]) => ({ folder, files }))
  if (folders.length + outside.length <= GROUPS_MAX) return [...folders, ...outside.map((file) => ({ folder: null, files: [file] }))]
  return folders.length < GROUPS_MAX ? [...folders, { folder: null, files: outside }] : [{ folder: null, files }]
}

/** The Markdown for a picture of the same page. */
export function pictureMarkup(path: string): string {
  const words = path
    .replace(/^.*\//, '')
    .replace(/\.[^.]*$/, '')
    .replace(/[[\]\\]/g, ' ')
  const address = path
    .split('/')
    .map(encodeURIComponent)
    .join('/')
    .replace(/[()]/g, (bracket) => (bracket === '(' ? '%28' : '%29'))
  return `![${words}](${address})`
}

export function isPicture({ blob }: PageFile): boolean {
  return blob.type.startsWith('image/')
}

/** Adds files; with Markdown, pictures are shown in the text at `at`. */
export function withShownFiles(before: Draft, added: readonly PageFile[], emptyFolders: readonly string[], at: number): Draft {
  const after = withFiles(before, added, emptyFolders)
  if (before.writing !== 'markdown' || isBlank(before.text)) return after
  const pictures = after.files.slice(before.files.length).filter(isPicture)
  if (pictures.length === 0) return after
  return { ...after, text: withMarkup(before.text, pictures.map(({ path }) => pictureMarkup(path)).join('\n'), at) }
}

/** Puts Markdown on lines of its own. */
export function withMarkup(text: string, markup: string, at: number): string {
  const before = text.slice(0, at).replace(/\n*$/, '\n\n')
  return `${before}${markup}\n${text.slice(at)}`
}

/** Whether it is a picture that the text could show and does not. */
export function isLoose({ writing, text }: Draft, file: PageFile): boolean {
  return writing === 'markdown' && !isBlank(text) && isPicture(file) && !text.includes(pictureMarkup(file.path))
}
