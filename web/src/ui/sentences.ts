import { holdersText } from '../words/holders.ts'
import { page } from '../words/page.ts'

/** How many have the page open, and how much of it they have. */
export interface Share {
  watching: number
  holders: number
  partial: number
}

/** Tabs and nodes, as the server counts them. */
export interface Counts extends Share {
  /** How many of them are nodes, which are nobody's tab. */
  nodes?: Share
}

const NO_NODES: Share = { watching: 0, holders: 0, partial: 0 }

/** How much of the page this tab has. */
export type Mine = 'all' | 'some' | 'none'

/** Who is there, for the headline of a page. */
export function watchingSentence({ watching, nodes = NO_NODES }: Counts): string {
  if (nodes.watching === 0) return page('watching', { count: Math.max(0, watching) })
  const count = Math.max(0, watching - nodes.watching)
  return page('watchingNodes', { count, nodes: holdersText(nodes.watching, nodes.watching) })
}

/** What keeps the page alive, in plain words. */
export function heldSentence({ watching, holders, partial, nodes = NO_NODES }: Counts, mine: Mine): string {
  if (holders <= 0) {
    const others = Math.max(0, partial - (mine === 'some' ? 1 : 0))
    if (others === 0) return page('nobody')
    const who = whoOf(others, nodes.partial)
    return who === null ? page('parts', { count: others }) : page('partsWith', { who })
  }
  if (mine === 'all' && holders === 1) return page(watching <= 1 ? 'onlyYou' : 'onlyYouFull')
  const ours = mine === 'all'
  const parts = partial > 0 ? page('onlyPart', { count: partial }) : null
  const who = whoOf(holders, nodes.holders)
  if (who !== null) {
    if (parts === null) return page(ours ? 'heldByOurs' : 'heldBy', { who })
    return page(ours ? 'heldByOursParts' : 'heldByParts', { who, parts })
  }
  if (parts === null) return page(ours ? 'heldOurs' : 'held', { count: holders })
  return page(ours ? 'heldOursParts' : 'heldParts', { count: holders, parts })
}

/** So many, some of them nodes; `null` when they are tabs. */
function whoOf(count: number, nodes: number): string | null {
  return nodes > 0 ? holdersText(count, Math.min(count, nodes)) : null
}

/** Where the missing part is coming from; `direct` of the peers are reached past the server, and `nodes` are nobody's tab. */
export function peersSentence(peers: number, direct = 0, nodes = 0): string {
  if (nodes > 0) {
    const who = holdersText(nodes, nodes)
    return nodes >= peers ? page('fromWho', { who }) : page('andFrom', { people: peersSentence(peers - nodes, direct), who })
  }
  if (direct === 0) return page('from', { count: peers })
  return direct >= peers ? page('directly', { count: peers }) : page('partlyDirectly', { count: peers, direct })
}
