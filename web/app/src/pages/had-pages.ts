import { effect } from '@preact/signals'
import { isKept, isWhole, type OpenPage, type OpenPages } from '../ui/open-pages.ts'
import type { Draft } from './draft.ts'

const KEY = 'watchfire:pages'
/** How often the tab notes that it still has its pages, in milliseconds. A crash is not announced. */
const NOTE_MS = 10_000
/** Longer text would fill the storage of the site, which has about five million characters. */
const TEXT_LENGTH_MAX = 200_000

/** A page that this tab had before it was reloaded, restored or used for another address. */
export interface HadPage {
  readonly cid: string
  readonly filename: string | null
  readonly key: string | null
  /** Whether it was created in this tab. */
  readonly isOwn: boolean
  /** Until when this tab had all of it, by `Date.now()`; `null` if it never had. */
  readonly until: number | null
  /** The text of a page that was written here. */
  readonly draft?: Draft | undefined
}

/** The texts of pages that were made since the tab was loaded. */
const drafts = new Map<string, Draft>()

/** Notes the text of a page that was made here, without its files. */
export function noteDraft(cid: string, draft: Draft): void {
  if (draft.liveTitle === null && draft.text !== '' && draft.text.length <= TEXT_LENGTH_MAX) drafts.set(cid, { ...draft, files: [] })
}

const before: ReadonlyMap<string, HadPage> = new Map(read().map((page) => [page.cid, page]))

export function hadPage(cid: string): HadPage | null {
  return before.get(cid) ?? null
}

function read(): HadPage[] {
  try {
    const pages: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? '[]')
    return Array.isArray(pages) ? pages.filter((page) => typeof page?.cid === 'string') : []
  } catch {
    return []
  }
}

/** Notes the pages of this tab for a reload, and opens those again that it kept before the last one. */
export function followPages(openPages: OpenPages): void {
  // Only then do their blocks belong to this visit. A person who typed another address has left them.
  const [navigation] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[]
  if (navigation?.type !== 'navigate') for (const page of before.values()) reopen(openPages, page)
  let noted = ''
  const note = (isTick: boolean) => {
    const now = Date.now()
    const kept = openPages.list.value.filter((page) => page.isOwn || isKept(page))
    const pages = kept.map((page) => noteOf(page, now))
    const text = JSON.stringify(pages, (name, value: unknown) => (name === 'until' ? value !== null : value))
    if (!isTick && text === noted) return
    noted = text
    write(pages)
  }
  effect(() => note(false))
  setInterval(() => note(true), NOTE_MS)
  addEventListener('pagehide', () => note(true))
}

function reopen(openPages: OpenPages, { cid, filename, key, isOwn }: HadPage): void {
  if (openPages.isFull || openPages.list.peek().some(({ session }) => session.cid === cid)) return
  openPages.open(cid, filename, key).isOwn = isOwn
}

function noteOf({ session, filename, isOwn }: OpenPage, now: number): HadPage {
  const { cid, key } = session
  const had = hadPage(cid)
  return {
    cid,
    filename,
    key: key.value,
    isOwn,
    until: isWhole(session) ? now : (had?.until ?? null),
    draft: drafts.get(cid) ?? had?.draft,
  }
}

function write(pages: readonly HadPage[]): void {
  for (const kept of [pages, pages.map(({ draft, ...page }) => page)])
    try {
      sessionStorage.setItem(KEY, JSON.stringify(kept))
      return
    } catch {
      // There is no storage, or the texts are too long for it.
    }
}
