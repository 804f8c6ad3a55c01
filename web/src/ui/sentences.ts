/** How many tabs have the page open, and how much of it they have. */
export interface Counts {
  watching: number
  holders: number
  partial: number
}

/** How much of the page this tab has. */
export type Mine = 'all' | 'some' | 'none'

/** Who is there, for the headline of a page. */
export function watchingSentence({ watching }: Counts): string {
  if (watching <= 1) return 'Only you are here'
  return `${watching} people are watching`
}

/** What keeps the page alive, in plain words. */
export function heldSentence({ watching, holders, partial }: Counts, mine: Mine): string {
  if (holders <= 0) {
    const others = Math.max(0, partial - (mine === 'some' ? 1 : 0))
    if (others === 0) return 'Nobody has this page right now.'
    return `Nobody has all of it: ${tabs(others)} ${others === 1 ? 'has' : 'have'} a part.`
  }
  if (mine === 'all' && holders === 1) {
    if (watching <= 1) {
      return 'You are the only one holding this page: when you close this tab it is gone.'
    }
    return 'You hold the only full copy: keep this tab open until somebody else has it all.'
  }
  const held = `Held by ${tabs(holders)}${mine === 'all' ? ', yours among them' : ''}`
  if (partial <= 0) return `${held}.`
  return `${held}; ${partial} ${partial === 1 ? 'has' : 'have'} only part.`
}

/** Who is on the whole site. */
export function visitorsSentence(visitors: number): string {
  return visitors === 1 ? 'Only you are here now' : `${visitors} people here now`
}

/** Where the missing part is coming from; `direct` of them are reached past the server. */
export function peersSentence(peers: number, direct = 0): string {
  const from = peers === 1 ? 'from 1 person' : `from ${peers} people`
  if (direct === 0) return from
  return direct >= peers ? `directly ${from}` : `${from}, ${direct} of them directly`
}

function tabs(count: number): string {
  return count === 1 ? '1 tab' : `${count} tabs`
}
