import type { Topic, TopicEvents } from '@watchfire/client/connection'
import { fieldsOf } from '../limits/fields.ts'
import type { PageDeps } from './api.ts'
import type { Clock } from './clock.ts'
import type { PageProtocol } from './page-protocol.ts'
import { EVENTS } from './server-messages.ts'

/** A page that is joined at its own server. When that server or `at` names others, code is loaded that joins the page there too. */
export class JoinedPage {
  readonly name: string
  readonly clock: Clock
  readonly protocol: Pick<PageProtocol, 'self' | 'have' | 'peers' | 'counts'>
  readonly events: Required<TopicEvents>
  /** The topic at the own server. */
  readonly home: Topic
  /** The topic at all servers. `verify` asks the other servers whether they can still be reached. */
  topic: Topic & { verify?(): void }
  /** Handles the events of the own server. */
  handler: Pick<Required<TopicEvents>, 'joined' | 'refused' | 'lost' | 'message'>
  /** The secret of the latest join, from which servers derive the id of this tab. */
  key = ''

  constructor(name: string, clock: Clock, protocol: JoinedPage['protocol'], events: Required<TopicEvents>, deps: PageDeps) {
    const { connection, at, connect } = deps
    this.name = name
    this.clock = clock
    this.protocol = protocol
    this.events = events
    this.handler = events
    let loading: Promise<typeof import('./away/index.ts')> | null = null
    const look = (servers: unknown) => {
      if (!servers && !at && loading === null) return
      loading ??= import('./away/index.ts')
      loading.then(
        ({ joinElsewhere }) => joinElsewhere(this, at, servers, connect),
        // The code did not load. The next list of servers tries again.
        () => (loading = null),
      )
    }
    this.home = connection.join(name, EVENTS, {
      ...events,
      params: () => {
        // Not from `random`, of which peers know other numbers.
        this.key = crypto.getRandomValues(new Uint32Array(5)).join()
        return { ...events.params(), peer_key: this.key }
      },
      joined: (response) => {
        this.handler.joined(response)
        look(fieldsOf(response)['elsewhere'])
      },
      refused: (response) => this.handler.refused(response),
      lost: () => this.handler.lost(),
      message: (event, payload) => (event === 'elsewhere' ? look(fieldsOf(payload)['servers']) : this.handler.message(event, payload)),
    })
    this.topic = this.home
  }
}
