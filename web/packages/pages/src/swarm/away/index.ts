import { connect as connectTo } from '@watchfire/client/connection'
import type { JoinedPage } from '../page-topic.ts'
import type { Connect } from './connections.ts'
import { SeveralServers } from './several-servers.ts'

/** Joins a page at these servers too: those that the caller knows, and those that the page's own server has named now. */
export function joinElsewhere(page: JoinedPage, at: readonly string[] = [], named: unknown, connect: Connect = connectTo): void {
  const { topic } = page
  const several = topic instanceof SeveralServers ? topic : new SeveralServers(page, connect)
  page.topic = several
  page.handler = several
  several.setServers([...at, ...(Array.isArray(named) ? named : [])])
}
