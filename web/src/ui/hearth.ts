import { signal } from '@preact/signals'
import type { PageSession, Site } from './site.ts'

/** A page that this tab has open, under the name it was opened by. */
export interface KeptPage {
  session: PageSession
  filename: string | null
  /** Written or dropped here, so that nobody else has it at first. */
  ours: boolean
}

/**
 * The pages of this tab. One that is held goes on being served when its reader looks at another
 * place of the application; one that is not is closed.
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
    this.kept.value = [...this.kept.value, { session, filename, ours: true }]
  }

  /** The page of that CID: the one kept, or a new search for it. */
  open(cid: string, filename: string | null): KeptPage {
    const known = this.kept.peek().find(({ session }) => session.cid === cid)
    if (known !== undefined) return known
    const page = { session: this.#site.open(cid), filename, ours: false }
    this.kept.value = [...this.kept.peek(), page]
    return page
  }

  /** Its reader looks elsewhere. */
  lookAway(cid: string): void {
    const page = this.kept.peek().find(({ session }) => session.cid === cid)
    if (page !== undefined && page.session.state.peek().kind !== 'held') this.close(cid)
  }

  /** Puts it out, in this tab. */
  close(cid: string): void {
    for (const { session } of this.kept.peek()) if (session.cid === cid) session.close()
    this.kept.value = this.kept.peek().filter(({ session }) => session.cid !== cid)
  }
}

/** Whether closing this tab would end a page that was made here. */
export function wouldEnd(pages: readonly KeptPage[]): boolean {
  return pages.some(({ session, ours }) => {
    const counts = session.counts.peek()
    return ours && session.state.peek().kind === 'held' && (counts === null || counts.holders <= 1)
  })
}
