import { signal, type Signal } from '@preact/signals'
import type { PageSession, PageState, Site } from './site.ts'

/** Pages that a tab keeps at once; each costs its visitors' questions, and the server a place. */
export const PAGES_MAX = 32

/** A page that this tab has open, under the name it was opened by. */
export interface KeptPage {
  session: PageSession
  filename: string | null
  /** Written or dropped here, so that nobody else has it at first. */
  ours: boolean
  /** What its reader has said about keeping it burning; `null` while nothing. */
  wish: Signal<boolean | null>
}

/**
 * The pages of this tab. One that is kept goes on being fetched and served when its reader looks at another place of the
 * application: what is wished so, and, where nothing is said, what is all here.
 */
export class Hearth {
  readonly kept = signal<readonly KeptPage[]>([])
  readonly #site: Site

  constructor(site: Site) {
    this.#site = site
  }

  /** Keeps a page that was made here. */
  keep(session: PageSession, filename: string | null): void {
    this.close(session.cid)
    this.kept.value = [...this.kept.value, { session, filename, ours: true, wish: signal(null) }]
  }

  /** The page of that CID: the one kept, or a new search for it. */
  open(cid: string, filename: string | null, key: string | null = null): KeptPage {
    const known = this.kept.peek().find(({ session }) => session.cid === cid)
    if (known !== undefined) {
      if (key !== null) known.session.unlock(key)
      return known
    }
    const page = { session: this.#site.open(cid, undefined, key), filename, ours: false, wish: signal(null) }
    this.kept.value = [...this.kept.peek(), page]
    return page
  }

  /** Keeps a page burning that its reader does not look at; `false` when the tab has as many as it may. */
  hold(cid: string, filename: string | null, key: string | null = null): boolean {
    const isKnown = this.kept.peek().some(({ session }) => session.cid === cid)
    if (!isKnown && this.kept.peek().length >= PAGES_MAX) return false
    this.open(cid, filename, key).wish.value = true
    return true
  }

  /** Its reader looks elsewhere. */
  lookAway(cid: string): void {
    const page = this.kept.peek().find(({ session }) => session.cid === cid)
    if (page !== undefined && !isKept(page)) this.close(cid)
  }

  /** Puts it out, in this tab. */
  close(cid: string): void {
    for (const { session } of this.kept.peek()) if (session.cid === cid) session.close()
    this.kept.value = this.kept.peek().filter(({ session }) => session.cid !== cid)
  }
}

/** Whether it goes on burning when its reader looks elsewhere. */
export function isKept({ session, wish }: KeptPage): boolean {
  return wish.value ?? isWhole(session.state.value)
}

/** Whether all of it is here, readable or not. */
export function isWhole(state: PageState): boolean {
  return state.kind === 'held' || (state.kind === 'locked' && state.coming === null)
}

/** Whether this tab has the only full copy. */
export function isLastHolder({ session }: KeptPage): boolean {
  const counts = session.counts.value
  return isWhole(session.state.value) && (counts === null || counts.holders <= 1)
}

/** Whether closing this tab would end a page that was made here, or that its reader chose to keep. */
export function wouldEnd(pages: readonly KeptPage[]): boolean {
  return pages.some((page) => (page.ours || page.wish.value === true) && isLastHolder(page))
}
