import type { LiveSource } from '@watchfire/pages/live'
import { fileEntries, nameOf, NOTE_NAME, TEXT_NAME, textEntry } from '../live/entries.ts'
import { kept } from '../messages/kept.ts'
import { PAGES_MAX } from '../ui/open-pages.ts'
import type { PageFile, PageSession, ShareOptions, Site } from '../ui/site.ts'
import { bundle } from './bundle.ts'
import { isBlank, type Draft } from './draft.ts'
import { noteDraft } from './had-pages.ts'
import { writtenFile } from './written.ts'

/** Creates the page of a draft. Resolves with the page, and with its name for the link. Rejects in a tab that has no room for one more. */
export async function shareDraft(
  site: Pick<Site, 'share'>,
  draft: Draft,
  options: Pick<ShareOptions, 'signal' | 'onProgress'>,
  isFull = false,
): Promise<{ session: PageSession; filename: string | null }> {
  if (isFull) throw new Error(kept('full', { count: PAGES_MAX }))
  if (draft.liveTitle !== null) {
    const title = nameOf(draft.liveTitle.trim())
    const session = await site.share([], { ...options, live: { title, entries: await liveEntries(draft) } })
    return { session, filename: title || null }
  }
  const { files, filename, emptyFolders, isDirectory } = bundle(draft)
  const sealed = draft.isPrivate ? { sealed: { name: filename } } : {}
  const session = await site.share(files, { ...options, emptyFolders, isDirectory, ...sealed })
  noteDraft(session.cid, draft)
  return { session, filename }
}

/**
 * The first entries of a live page: those of the page of which it is a copy, the text, and the files. Files to which a formatted text may
 * refer are in a folder with it.
 */
async function liveEntries(draft: Draft): Promise<LiveSource[]> {
  const copied = draft.original?.kind === 'live' ? draft.files.filter(({ path }) => ENTRY.test(path)) : []
  const files = draft.files.filter((file) => !copied.includes(file))
  return [...(await copiedEntries(copied)), ...writtenEntries({ ...draft, files })]
}

/** A file of an entry in the list of a live page: the number of the entry, and the path below it. */
const ENTRY = /^(\d+)\/(.+)$/s

async function copiedEntries(files: readonly PageFile[]): Promise<LiveSource[]> {
  const byNumber = new Map<number, PageFile[]>()
  for (const { path, blob } of files) {
    const [, number, below = ''] = ENTRY.exec(path) ?? []
    const known = byNumber.get(Number(number)) ?? []
    byNumber.set(Number(number), [...known, { path: below, blob }])
  }
  const sorted = [...byNumber].sort(([a], [b]) => a - b)
  const entries = sorted.map(async ([, sources]) => {
    const [only] = sources
    const isText = sources.length === 1 && only?.path === TEXT_NAME
    return isText ? [textEntry(await only.blob.text(), null)] : fileEntries(sources)
  })
  return (await Promise.all(entries)).flat()
}

function writtenEntries(draft: Draft): LiveSource[] {
  const { writing, text, files } = draft
  if (writing !== 'text' && !isBlank(text) && files.length > 0) {
    const { files: sources, filename } = bundle(draft)
    return [{ form: 'file', name: nameOf(filename ?? ''), sources }]
  }
  if (isBlank(text)) return fileEntries(files)
  if (writing === 'text') return [textEntry(text, null), ...fileEntries(files)]
  const path = writing === 'html' ? 'entry.html' : NOTE_NAME
  return [{ form: 'file', name: path, sources: [{ path, blob: writtenFile(draft) }] }]
}
