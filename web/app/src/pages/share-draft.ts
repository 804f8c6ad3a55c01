import type { LiveSource } from '@watchfire/pages/live'
import { fileEntries, nameOf, NOTE_NAME, textEntry } from '../live/entries.ts'
import { withLineBreaks } from '../files/line-breaks.ts'
import { kept } from '../messages/kept.ts'
import { PAGES_MAX } from '../ui/open-pages.ts'
import type { PageSession, ShareOptions, Site } from '../ui/site.ts'
import { bundle } from './bundle.ts'
import { isBlank, type Draft } from './draft.ts'

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
    const session = await site.share([], { ...options, live: { title, entries: liveEntries(draft) } })
    return { session, filename: title || null }
  }
  const { files, filename, emptyFolders, isDirectory } = bundle(draft)
  const sealed = draft.isPrivate ? { sealed: { name: filename } } : {}
  return { session: await site.share(files, { ...options, emptyFolders, isDirectory, ...sealed }), filename }
}

/** The first entries of a live page: the text, and the files. Files to which a formatted text may refer are in a folder with it. */
function liveEntries(draft: Draft): LiveSource[] {
  const { writing, text, files } = draft
  if (writing !== 'text' && !isBlank(text) && files.length > 0) {
    const { files: sources, filename } = bundle(draft)
    return [{ form: 'file', name: nameOf(filename ?? ''), sources }]
  }
  const name = { markdown: NOTE_NAME, text: null, html: 'entry.html' }[writing]
  const words = writing === 'markdown' ? withLineBreaks(text) : text
  return [...(isBlank(text) ? [] : [textEntry(words, name)]), ...fileEntries(files)]
}
