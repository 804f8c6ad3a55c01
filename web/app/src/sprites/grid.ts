import type { ReadonlySignal } from '@preact/signals'
import { signal } from '@preact/signals'
import type { Connection, Topic } from '@watchfire/client/connection'
import { grid as text } from '../messages/grid.ts'
import type { Crossing, Neighbours } from './protocol.ts'
import { isWrapped, NO_NEIGHBOURS, readArrival, readNeighbours, readSlot } from './protocol.ts'

/** A slot on a grid. */
export interface GridSession {
  readonly standing: ReadonlySignal<'joining' | 'joined' | { refused: string }>
  readonly neighbours: ReadonlySignal<Neighbours>
  /** Throws to the neighbour; `back` when the sprite did not get there and stays here. */
  throw(crossing: Crossing): Promise<'across' | 'back'>
  leave(): void
}

/** Stores the token of a slot across reloads. */
export interface TokenKeeper {
  read(): string | null
  write(token: string | null): void
}

/** Joins a grid, in the same slot as before if the token is still valid. */
export function joinGrid(
  connecting: Promise<Connection>,
  grid: string,
  token: TokenKeeper,
  onArrival: (crossing: Crossing) => void,
): GridSession {
  const standing = signal<'joining' | 'joined' | { refused: string }>('joining')
  const neighbours = signal<Neighbours>(NO_NEIGHBOURS)
  let topic: Topic | null = null
  let hasLeft = false

  const join = (connection: Connection) => {
    if (hasLeft) return
    topic = connection.join(`sprites:${grid}`, ['arrive', 'neighbours', 'moved'], {
      params: () => {
        const known = token.read()
        return known === null ? {} : { token: known }
      },
      joined(response) {
        const slot = readSlot(response)
        token.write(slot.token)
        neighbours.value = slot.neighbours
        standing.value = 'joined'
      },
      lost: () => (standing.value = 'joining'),
      refused: (response) => (standing.value = { refused: reasonOf(response) }),
      message(event, payload) {
        if (event === 'neighbours') neighbours.value = readNeighbours(payload)
        if (event === 'moved') {
          // A copy of this tab has taken the slot.
          topic?.leave()
          token.write(null)
          join(connection)
        }
        const arrival = event === 'arrive' ? readArrival(payload) : null
        if (arrival !== null) onArrival(arrival)
      },
    })
  }
  connecting.then(join, () => (standing.value = { refused: text('noConnection') }))

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
  const fields = typeof response === 'object' && response !== null ? response : {}
  return 'reason' in fields && typeof fields.reason === 'string' ? fields.reason : text('noReason')
}
