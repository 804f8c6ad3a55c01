import type { Reply, Topic, TopicEvents } from '@watchfire/client/connection'
import { fieldsOf } from '../limits/fields.ts'
import type { PageDeps } from './api.ts'
import type { FirstRequest, PageProtocol } from './page-protocol.ts'
import { EVENTS } from './server-messages.ts'

/** The handlers of a page. */
export type PageEvents = Required<Omit<TopicEvents, 'first'>> & {
  first: () => { first: FirstRequest; event: string; payload: Uint8Array; settle: (reply: Reply) => void } | null
}

/** A page that is joined, as the code for several servers sees it. */
export interface JoinedPage {
  readonly name: string
  readonly deps: PageDeps
  readonly protocol: Pick<PageProtocol, 'self' | 'have' | 'peers' | 'counts' | 'isOver'>
  /** Handles the events of the page. */
  readonly events: PageEvents
  /** Handles the events of the topic at the own server. */
  readonly home: Required<TopicEvents>
  /** The secret of the latest join, from which servers derive the id of this tab. */
  key: string
  /** The topic at the own server, or at several. `verify` asks the others whether they can still be reached. */
  topic: Topic & { verify?(): void }
}

/** Joins a page at its own server. When that server or `at` names others, code is loaded that can join the page there too. */
export function joinPage(name: string, protocol: JoinedPage['protocol'], events: PageEvents, deps: PageDeps): JoinedPage {
  // If the code does not load, the next list of servers tries again.
  const look = (servers?: unknown) =>
    (servers || deps.at?.(look).length) &&
    import('./away/index.ts').then(({ joinElsewhere }) => joinElsewhere(joined, servers)).catch(() => {})
  const home = {
    ...events,
    params: () => {
      // Not from `random`, of which peers know other numbers.
      page.key = crypto.getRandomValues(new Uint32Array(5)).join()
      return { ...events.params(), peer_key: page.key }
    },
    joined: (response: unknown) => {
      events.joined(response)
      look(fieldsOf(response)['elsewhere'])
    },
    message: (event: string, payload: unknown) =>
      event === 'elsewhere' ? look(fieldsOf(payload)['servers']) : events.message(event, payload),
  }
  const page = { name, deps, protocol, events, home, key: '' }
  const joined: JoinedPage = Object.assign(page, { topic: deps.connection.join(name, EVENTS, home) })
  // While the join is under way, so that a server that its reply names need not wait for the code. It may also never be answered.
  look()
  return joined
}
