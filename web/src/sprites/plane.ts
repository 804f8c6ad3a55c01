import type { ReadonlySignal } from '@preact/signals'
import { signal } from '@preact/signals'
import type { Connection, Topic } from '../channel/index.ts'
import { plane as words } from '../words/plane.ts'
import type { Crossing, Neighbours } from './throw.ts'
import { isWrapped, NOBODY, readArrival, readNeighbours, readPlace } from './throw.ts'

/** A place on a plane. */
export interface PlaneSession {
  readonly standing: ReadonlySignal<'joining' | 'joined' | { refused: string }>
  readonly neighbours: ReadonlySignal<Neighbours>
  /** Throws to the neighbour; `back` when it did not get there and is still ours. */
  throw(crossing: Crossing): Promise<'across' | 'back'>
  leave(): void
}

/** Where the token of a place is kept over a reload. */
export interface TokenKeeper {
  read(): string | null
  write(token: string | null): void
}

/** Takes a place on a plane, the same as before where the token still gives it. */
export function enterPlane(
  connecting: Promise<Connection>,
  plane: string,
  token: TokenKeeper,
  onArrival: (crossing: Crossing) => void,
): PlaneSession {
  const standing = signal<'joining' | 'joined' | { refused: string }>('joining')
  const neighbours = signal<Neighbours>(NOBODY)
  let topic: Topic | null = null
  let hasLeft = false

  const join = (connection: Connection) => {
    if (hasLeft) return
    topic = connection.join(`sprites:${plane}`, ['arrive', 'neighbours', 'moved'], {
      params: () => {
        const known = token.read()
        return known === null ? {} : { token: known }
      },
      joined(response) {
        const place = readPlace(response)
        token.write(place.token)
        neighbours.value = place.neighbours
        standing.value = 'joined'
      },
      lost: () => (standing.value = 'joining'),
      refused: (response) => (standing.value = { refused: reasonOf(response) }),
      message(event, payload) {
        if (event === 'neighbours') neighbours.value = readNeighbours(payload)
        if (event === 'moved') {
          // A copy of this tab has the place now.
          topic?.leave()
          token.write(null)
          join(connection)
        }
        const arrival = event === 'arrive' ? readArrival(payload) : null
        if (arrival !== null) onArrival(arrival)
      },
    })
  }
  connecting.then(join, () => (standing.value = { refused: words('noConnection') }))

  return {
    standing,
    neighbours,
    async throw(crossing) {
      const { picture, ...drawn } = crossing
      const reply = await topic?.push('throw', picture === null ? drawn : { ...crossing })
      return reply?.status === 'ok' && !isWrapped(reply.response) ? 'across' : 'back'
    },
    leave() {
      hasLeft = true
      topic?.leave()
    },
  }
}

function reasonOf(response: unknown): string {
  const told = typeof response === 'object' && response !== null ? response : {}
  return 'reason' in told && typeof told.reason === 'string' ? told.reason : words('noReason')
}
