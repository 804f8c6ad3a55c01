import { type BlockStore, type FileListing, listFiles, RAW } from '../../content/index.ts'
import type { Entry, History } from '../../live/index.ts'
import type { LiveFeed } from '../api.ts'
import type { Publisher } from './publisher.ts'

/** The files of a live page: each entry is below its number, a text is a file `text.txt`. */
export function listLive(store: BlockStore, entries: readonly Entry[]): FileListing {
  const listings = entries.map((entry) => listEntry(store, entry))
  return {
    files: listings.flatMap(({ files }) => files),
    links: listings.reduce((sum, { links }) => sum + links, 0),
    // It can grow at any time. The files that are known can be shown.
    hasNames: true,
    isFinal: true,
  }
}

/** The state of the page for its views. */
export function feedOf(history: History, publisher: Publisher | null): LiveFeed {
  const { beginning, split, invalid, isComplete } = history
  const entries = history.entries.map((entry) => {
    const { number, timeMs, form, name } = entry
    return { number, timeMs, form, name, path: pathOf(entry) }
  })
  const { title, timeMs } = beginning
  return {
    title,
    timeMs,
    entries,
    isComplete,
    isOurs: publisher !== null,
    survivesReload: publisher?.survivesReload ?? false,
    splitAt: split?.number ?? null,
    invalidAt: invalid,
  }
}

/** The path of an entry in the listing of its page. */
export function pathOf({ number, form, name }: Pick<Entry, 'number' | 'form' | 'name'>): string {
  return `${number}/${form === 'text' ? 'text.txt' : name || 'file'}`
}

function listEntry(store: BlockStore, entry: Entry): FileListing {
  const { content, contentBytes } = entry
  const path = pathOf(entry)
  if (content.codec === RAW) return { files: [{ path, cid: content, size: contentBytes }], links: 0, hasNames: true, isFinal: true }
  const listing = listFiles(store, content)
  if (listing === null) return { files: [{ path, cid: content, size: null }], links: 0, hasNames: true, isFinal: false }
  const files = listing.files.map((file) => ({ ...file, path: file.path === '' ? path : `${path}/${file.path}` }))
  return { ...listing, files }
}
