import type { PageFile } from '../ui/site.ts'

export type Writing = 'markdown' | 'text' | 'html'

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
}

export const EMPTY_DRAFT: Draft = { writing: 'markdown', text: '', files: [], emptyFolders: [], isPrivate: false, liveTitle: null }

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
