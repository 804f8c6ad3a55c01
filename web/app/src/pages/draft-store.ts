import { EMPTY_DRAFT, isEmpty, type Draft } from './draft.ts'

const KEY = 'watchfire:draft'
/** Longer text would fill the storage of the site, which has about five million characters. */
const TEXT_LENGTH_MAX = 1_000_000

/** The draft that another view has handed to the home page. */
let handed: Draft | null = null

/** Gives the home page a draft to start with, such as the copy of a page. */
export function handOver(draft: Draft): void {
  handed = draft
}

/** The draft to start with: a handed one, or the one that this tab had before it was reloaded, without its files. */
export function firstDraft(): { draft: Draft; hadFiles: boolean } {
  const given = handed
  handed = null
  try {
    const { files, ...kept } = JSON.parse(sessionStorage.getItem(KEY) ?? '{}') as Partial<Draft>
    if (given === null) return { draft: { ...EMPTY_DRAFT, ...kept }, hadFiles: files !== undefined }
  } catch {
    // There is no storage, and so no draft.
  }
  return { draft: given ?? EMPTY_DRAFT, hadFiles: false }
}

/** Keeps the draft in this tab, over a reload; its files are kept by `keepFiles`. Returns whether that worked. */
export function keepDraft(draft: Draft): boolean {
  try {
    sessionStorage.removeItem(KEY)
    if (isEmpty(draft) && draft.liveTitle === null) return true
    const { writing, text, isPrivate, liveTitle, original, files } = draft
    if (text.length > TEXT_LENGTH_MAX) return false
    sessionStorage.setItem(KEY, JSON.stringify({ writing, text, isPrivate, liveTitle, original, ...(files.length > 0 && { files: [] }) }))
    return true
  } catch {
    return false
  }
}
