import type { Connection } from '@watchfire/client/connection'
import { cidOfLink, type CidKey } from '../content/index.ts'
import type { PageDeps, PageSession } from './api.ts'
import { SharedPage } from './shared-page.ts'

const opened = new WeakMap<Connection, Map<CidKey, SharedPage>>()

/**
 * Joins the page's topic, loads the missing blocks, and serves blocks until closed. Throws an error with a sentence for
 * people if `cid` is not valid. A page that is open on the connection already is shared: it ends when each caller has closed it.
 */
export function openPage(cid: string, deps: PageDeps): PageSession {
  const root = cidOfLink(cid)
  const pages = opened.get(deps.connection) ?? new Map<CidKey, SharedPage>()
  opened.set(deps.connection, pages)
  const page = pages.get(root.key) ?? new SharedPage(root, deps, () => pages.delete(root.key))
  pages.set(root.key, page)
  return page.view(deps)
}
