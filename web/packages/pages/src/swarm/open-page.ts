import { cidOfLink } from '../content/index.ts'
import type { PageDeps, PageSession } from './api.ts'
import { Session } from './session.ts'

/**
 * Joins the page's topic, loads the missing blocks, and serves blocks until closed. Throws an error with a sentence for
 * people if `cid` is not valid.
 */
export function openPage(cid: string, deps: PageDeps): PageSession {
  return new Session(cidOfLink(cid), deps)
}
