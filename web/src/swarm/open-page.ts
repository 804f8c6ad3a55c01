import { parseCid } from '../content/index.ts'
import type { PageDeps, PageSession } from './api.ts'
import { Session } from './session.ts'

/**
 * Joins the page's topic; loads what is missing and serves what is here until closed. Throws a `ContentError` when
 * `cid` is none.
 */
export function openPage(cid: string, deps: PageDeps): PageSession {
  return new Session(parseCid(cid), deps)
}
