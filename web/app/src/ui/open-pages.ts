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
  /** Whether it may be kept by choice: the tab has a maximum number of such pages. */
  mayKeep(): boolean
}

/**
 * The pages of this tab. A kept page is still loaded and served while its reader is in another view. A page is kept by
 * choice, or, without a choice, when all of it is here, or the key of a live page.
 */
export class OpenPages {
  /** The one that was viewed last is at the end. */
  readonly list = signal<readonly OpenPage[]>([])
  readonly #site: Site

  constructor(site: Site) {
    this.#site = site
  }

  /** Adds a page that was created here. */
  keep(session: PageSession, filename: string | null): void {
    this.close(session.cid)
    this.#add({ session, filename, isOwn: true, keepChoice: signal(null) })
  }

  /** The page of that CID: the open one, or a new session that looks for it. */
  open(cid: string, filename: string | null, key: string | null = null): OpenPage {
    const known = this.#find(cid)
    if (known === undefined)
      return this.#add({ session: this.#site.open(cid, undefined, key), filename, isOwn: false, keepChoice: signal(null) })
    if (key !== null) known.session.unlock(key)
    if (known !== this.list.peek().at(-1)) this.list.value = [...this.list.peek().filter((each) => each !== known), known]
    return known
  }

  /** Keeps sharing a page in the background; `false` when the tab has its maximum number of pages. */
  hold(cid: string, filename: string | null, key: string | null = null): boolean {
    if (!(this.#find(cid)?.mayKeep() ?? !this.isFull)) return false
    this.open(cid, filename, key).keepChoice.value = true
    return true
  }

  /** Whether the pages that were created or chosen here are as many as a tab may have. */
  get isFull(): boolean {
    return this.list.peek().filter(isChosen).length >= PAGES_MAX
  }

  /** In a tab with its maximum number of pages, the one that was only read, longest ago, is closed. */
  #add(added: Omit<OpenPage, 'mayKeep'>): OpenPage {
    const page = { ...added, mayKeep: () => isChosen(page) || !this.isFull }
    const read = this.list.peek().find((each) => !isChosen(each))
    if (this.list.peek().length >= PAGES_MAX && read) this.close(read.session.cid)
    this.list.value = [...this.list.peek(), page]
    return page
  }

  #find(cid: string): OpenPage | undefined {
    return this.list.peek().find(({ session }) => session.cid === cid)
  }

  /** Called when the reader leaves the view of a page; closes the page unless it is kept. */
  leave(cid: string): void {
    const page = this.#find(cid)
    if (page !== undefined && !isKept(page)) this.close(cid)
  }

  /** Closes a page in this tab. */
  close(cid: string): void {
    for (const { session } of this.list.peek()) if (session.cid === cid) session.close()
    this.list.value = this.list.peek().filter(({ session }) => session.cid !== cid)
  }
}

/** Whether it was created here or its reader chose to keep it. Such a page is closed only by the person. */
export function isChosen({ session, isOwn, keepChoice }: OpenPage): boolean {
  return isOwn || keepChoice.value === true || canAppend(session)
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

/** Whether this tab only read the page, and now has the only complete copy. Without a connection, others may have it. */
export function isLastReader(page: OpenPage): boolean {
  return !isChosen(page) && page.session.counts.value !== null && isLastHolder(page)
}

/** Whether closing the tab would end a page for everybody, or lose the key of a live page. */
export function wouldEnd(pages: readonly OpenPage[]): boolean {
  return pages.some((page) => canAppend(page.session) || (isChosen(page) ? isLastHolder(page) : isLastReader(page)))
}

/** Whether this tab has the key of a live page that has not forked. Nobody else can add to it. */
export function canAppend({ state: { value: state } }: PageSession): boolean {
  const content = 'content' in state ? state.content : undefined
  return content?.kind === 'live' && content.feed.isOurs && content.feed.splitAt === null
}
