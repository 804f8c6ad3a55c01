import { signal, type Signal } from '@preact/signals'
import type { PageSession, Site } from './site.ts'

/** Pages that a tab keeps open at the same time. Each costs requests of its visitors and a topic on the server. */
export const PAGES_MAX = 32

/** A page that this tab has open, and the name it was opened by. */
export interface OpenPage {
  session: PageSession
  filename: string | null
  /** Whether it was created here, so that at first no other tab has it. */
  isOwn: boolean
  /** Whether the reader chose to keep sharing it; `null` without a choice. */
  keepChoice: Signal<boolean | null>
}

/**
 * The pages of this tab. A kept page is still loaded and served while its reader is in another view. A page is kept by
 * choice, or, without a choice, when all of it is here, or the key of a live page.
 */
export class OpenPages {
  readonly list = signal<readonly OpenPage[]>([])
  readonly #site: Site

  constructor(site: Site) {
    this.#site = site
  }

  /** Adds a page that was created here. */
  keep(session: PageSession, filename: string | null): void {
    this.close(session.cid)
    this.list.value = [...this.list.value, { session, filename, isOwn: true, keepChoice: signal(null) }]
  }

  /** The page of that CID: the open one, or a new session that looks for it. */
  open(cid: string, filename: string | null, key: string | null = null): OpenPage {
    const known = this.list.peek().find(({ session }) => session.cid === cid)
    if (known !== undefined) {
      if (key !== null) known.session.unlock(key)
      return known
    }
    const page = { session: this.#site.open(cid, undefined, key), filename, isOwn: false, keepChoice: signal(null) }
    this.list.value = [...this.list.peek(), page]
    return page
  }

  /** Keeps sharing a page in the background; `false` when the tab has its maximum number of pages. */
  hold(cid: string, filename: string | null, key: string | null = null): boolean {
    const isKnown = this.list.peek().some(({ session }) => session.cid === cid)
    if (!isKnown && this.list.peek().length >= PAGES_MAX) return false
    this.open(cid, filename, key).keepChoice.value = true
    return true
  }

  /** Called when the reader leaves the view of a page; closes the page unless it is kept. */
  leave(cid: string): void {
    const page = this.list.peek().find(({ session }) => session.cid === cid)
    if (page !== undefined && !isKept(page)) this.close(cid)
  }

  /** Closes a page in this tab. */
  close(cid: string): void {
    for (const { session } of this.list.peek()) if (session.cid === cid) session.close()
    this.list.value = this.list.peek().filter(({ session }) => session.cid !== cid)
  }
}

/** Whether it stays open when its reader leaves its view. */
export function isKept({ session, keepChoice }: OpenPage): boolean {
  return keepChoice.value ?? (isWhole(session) || canAppend(session))
}

/** Whether all of it is here and can be shared, readable or not. */
export function isWhole({ have }: PageSession): boolean {
  return have.value === 'all'
}

/** Whether this tab has the only complete copy. */
export function isLastHolder({ session }: OpenPage): boolean {
  const counts = session.counts.value
  return isWhole(session) && (counts === null || counts.holders <= 1)
}

/** Whether closing the tab would lose a page that was created here or that its reader chose to keep, or the key of a live page. */
export function wouldEnd(pages: readonly OpenPage[]): boolean {
  return pages.some((page) => canAppend(page.session) || ((page.isOwn || page.keepChoice.value === true) && isLastHolder(page)))
}

/** Whether this tab has the key of a live page that has not forked. Nobody else can add to it. */
export function canAppend({ state: { value: state } }: PageSession): boolean {
  const content = 'content' in state ? state.content : undefined
  return content?.kind === 'live' && content.feed.isOurs && content.feed.splitAt === null
}
