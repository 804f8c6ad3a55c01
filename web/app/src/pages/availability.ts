import type { OwnCopy } from '../ui/sentences.ts'
import type { PageState } from '../ui/site.ts'
import type { Availability } from '../ui/tab-status.ts'

/** The copies of a page that are known. */
interface Copies {
  /** The part that this tab can share. */
  readonly own: OwnCopy
  /** The number of complete copies; `null` while the tab is not connected. */
  readonly holders: number | null
  /** Whether the server does not introduce this tab to others. */
  readonly isRejected: boolean
}

/** Whether others can load the page. A page that is here is no longer available when a file of it has changed. */
export function availabilityOf(state: PageState, copies: Copies): Availability {
  switch (state.kind) {
    case 'joining':
    case 'loading':
      return 'loading'
    case 'held':
      return ofHeld(copies)
    case 'locked':
      return state.coming === null ? ofHeld(copies) : availabilityOf(state.coming, copies)
    case 'waiting':
    case 'refused':
      return 'unavailable'
  }
}

function ofHeld({ own, holders, isRejected }: Copies): Availability {
  if (isRejected) return 'unavailable'
  if (holders === null) return 'loading'
  return own === 'all' || holders > 0 ? 'available' : 'unavailable'
}
