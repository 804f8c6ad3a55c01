import { page } from '../words/page.ts'

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
  return page('watching', { count: Math.max(0, watching) })
}

/** What keeps the page alive, in plain words. */
export function heldSentence({ watching, holders, partial }: Counts, mine: Mine): string {
  if (holders <= 0) {
    const others = Math.max(0, partial - (mine === 'some' ? 1 : 0))
    return others === 0 ? page('nobody') : page('parts', { count: others })
  }
  if (mine === 'all' && holders === 1) return page(watching <= 1 ? 'onlyYou' : 'onlyYouFull')
  const ours = mine === 'all'
  if (partial <= 0) return page(ours ? 'heldOurs' : 'held', { count: holders })
  const parts = page('onlyPart', { count: partial })
  return page(ours ? 'heldOursParts' : 'heldParts', { count: holders, parts })
}

/** Where the missing part is coming from; `direct` of them are reached past the server. */
export function peersSentence(peers: number, direct = 0): string {
  if (direct === 0) return page('from', { count: peers })
  return direct >= peers ? page('directly', { count: peers }) : page('partlyDirectly', { count: peers, direct })
}
