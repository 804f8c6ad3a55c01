import type { JoinedPage } from '../page-topic.ts'
import { SeveralServers } from './several-servers.ts'

/** Joins a page at these servers too, and where it has to, at those that its caller has named. */
export function joinElsewhere(page: JoinedPage, named: unknown): void {
  const several = page.topic instanceof SeveralServers ? page.topic : new SeveralServers(page)
  page.topic = several
  several.setServers(named)
}
