import type { PageFile } from '../ui/site.ts'

export type Writing = 'markdown' | 'text' | 'html'

/** The page of which a draft is a copy. What nobody changes stays as it is there, so its CID does too. */
export interface Original {
  readonly kind: 'file' | 'directory' | 'live'
  /** The name of the page. */
  readonly name: string | null
  /** The file whose text is in the editor. */
  readonly main: OriginalText | null
}

export interface OriginalText {
  /** The path in a folder, or the name of a single file, which may be empty. */
  readonly path: string
  readonly writing: Writing
  /** Its lines end as in the editor. */
  readonly text: string
  /** A character for each byte. A tab can store that over a reload. */
  readonly bytes: string
}

/** The contents of the home page before they are shared. */
export interface Draft {
  writing: Writing
  text: string
  files: readonly PageFile[]
  /** Paths of folders without anything in them. */
  emptyFolders: readonly string[]
  /** Whether the page is to be private. */
  isPrivate: boolean
  /** The title of a live page, which may be empty; `null` if the page is not to be live. */
  liveTitle: string | null
  /** `null` if it is no copy. */
  original: Original | null
}

export const EMPTY_DRAFT: Draft = {
  writing: 'markdown',
  text: '',
  files: [],
  emptyFolders: [],
  isPrivate: false,
  liveTitle: null,
  original: null,
}

export function isBlank(text: string): boolean {
  return text.trim() === ''
}

export function isEmpty({ text, files }: Draft): boolean {
  return isBlank(text) && files.length === 0
}

/** Bytes of the page's content, without the nodes that link it together. */
export function draftBytes({ text, files }: Draft): number {
  return files.reduce((sum, { blob }) => sum + blob.size, isBlank(text) ? 0 : new Blob([text]).size)
}
