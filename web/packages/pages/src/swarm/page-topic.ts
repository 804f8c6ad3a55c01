import type { Topic, TopicEvents } from '@watchfire/client/connection'
import { fieldsOf } from '../limits/fields.ts'
import type { PageDeps } from './api.ts'
import type { SeveralServers } from './away/index.ts'
import type { Clock } from './clock.ts'
import { EVENTS, type PageProtocol } from './page-protocol.ts'

/** The topic of a page, at its own server or at several. */
export interface PageTopic extends Topic {
  /** Asks the other servers whether they can still be reached. */
  verify?(): void
}

/** A page that is joined, as the code for other servers sees it. */
export interface JoinedPage {
  /** The name of its topic. */
  readonly name: string
  readonly clock: Clock
  readonly protocol: Pick<PageProtocol, 'self' | 'have' | 'peers' | 'counts'>
  readonly events: Required<TopicEvents>
  /** Replaces the topic that `joinPage` returned. */
  readonly use: (topic: PageTopic) => void
}

/**
 * Joins the topic of a page at its own server. When that server or `at` names others, code is loaded that joins the page there too, as
 * the same peer, and that stands for all of them.
 */
export function joinPage(page: JoinedPage, { connection, at = [], connect }: PageDeps): PageTopic {
  const { name, events } = page
  let handler: Pick<typeof events, 'joined' | 'refused' | 'lost' | 'message'> = events
  let key = ''
  let loading: Promise<SeveralServers> | null = null
  const look = (servers: unknown) => {
    const named: unknown[] = Array.isArray(servers) ? [...at, ...servers] : [...at]
    if (named.length === 0 && loading === null) return
    loading ??= import('./away/index.ts').then(({ SeveralServers }) => {
      const several = new SeveralServers(page, home, () => key, connect)
      handler = several
      page.use(several)
      return several
    })
    loading.then(
      (several) => several.setServers(named),
      // The code did not load. The next list of servers tries again.
      () => (loading = null),
    )
  }
  const home = connection.join(name, [...EVENTS, 'elsewhere'], {
    params: () => {
      // Not from `random`, of which peers know other numbers: the key is a secret.
      key = crypto.getRandomValues(new Uint32Array(5)).join()
      return { ...events.params(), peer_key: key }
    },
    first: events.first,
    joined: (response) => {
      handler.joined(response)
      look(fieldsOf(response)['elsewhere'])
    },
    refused: (response) => handler.refused(response),
    lost: () => handler.lost(),
    message: (event, payload) => (event === 'elsewhere' ? look(fieldsOf(payload)['servers']) : handler.message(event, payload)),
  })
  return home
}
