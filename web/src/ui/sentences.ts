import { holdersText } from '../messages/holders.ts'
import { page } from '../messages/page.ts'

/** The number of tabs and nodes that have the page open, by how much of it they have. */
export interface HolderCounts {
  watching: number
  holders: number
  partial: number
}

/** The counts of the server, tabs and nodes together. */
export interface Counts extends HolderCounts {
  /** The nodes among them. */
  nodes?: HolderCounts
}

const NO_NODES: HolderCounts = { watching: 0, holders: 0, partial: 0 }

/** The part of the page that this tab has. */
export type OwnCopy = 'all' | 'some' | 'none'

/** The headline of a page: how many people have it open. */
export function watchingSentence({ watching, nodes = NO_NODES }: Counts): string {
  if (nodes.watching === 0) return page('watching', { count: Math.max(0, watching) })
  const count = Math.max(0, watching - nodes.watching)
  return page('watchingNodes', { count, nodes: holdersText(nodes.watching, nodes.watching) })
}

/** The holders of the page, and the effect of closing this tab. */
export function heldSentence({ watching, holders, partial, nodes = NO_NODES }: Counts, ownCopy: OwnCopy): string {
  if (holders <= 0) {
    const others = Math.max(0, partial - (ownCopy === 'some' ? 1 : 0))
    if (others === 0) return page('nobody')
    const who = whoOf(others, nodes.partial)
    return who === null ? page('parts', { count: others }) : page('partsWith', { who })
  }
  if (ownCopy === 'all' && holders === 1) return page(watching <= 1 ? 'onlyYou' : 'onlyYouFull')
  const ours = ownCopy === 'all'
  const parts = partial > 0 ? page('onlyPart', { count: partial }) : null
  const who = whoOf(holders, nodes.holders)
  if (who !== null) {
    if (parts === null) return page(ours ? 'heldByOurs' : 'heldBy', { who })
    return page(ours ? 'heldByOursParts' : 'heldByParts', { who, parts })
  }
  if (parts === null) return page(ours ? 'heldOurs' : 'held', { count: holders })
  return page(ours ? 'heldOursParts' : 'heldParts', { count: holders, parts })
}

/** Names a number of holders with some nodes among them; `null` when all are tabs. */
function whoOf(count: number, nodes: number): string | null {
  return nodes > 0 ? holdersText(count, Math.min(count, nodes)) : null
}

/** The peers that send the missing part; `direct` of them are connected directly, `nodes` of them are not tabs. */
export function peersSentence(peers: number, direct = 0, nodes = 0): string {
  if (nodes > 0) {
    const who = holdersText(nodes, nodes)
    return nodes >= peers ? page('fromWho', { who }) : page('andFrom', { people: peersSentence(peers - nodes, direct), who })
  }
  if (direct === 0) return page('from', { count: peers })
  return direct >= peers ? page('directly', { count: peers }) : page('partlyDirectly', { count: peers, direct })
}
