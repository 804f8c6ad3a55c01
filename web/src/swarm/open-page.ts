import type { PageDeps, PageSession } from './api.ts'

/** Joins the page's topic; loads what is missing and serves what is here until closed. */
export function openPage(_cid: string, _deps: PageDeps): PageSession {
  throw new Error('not yet')
}
