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

/** The headline of a page: who has it, in one line. */
export function haveSentence({ watching, holders, partial, nodes = NO_NODES }: Counts, ownCopy: OwnCopy): string {
  if (holders <= 0) return page(othersWithParts(partial, ownCopy) > 0 ? 'nobodyAll' : 'nobody')
  if (ownCopy === 'all' && holders === 1) return page(watching <= 1 ? 'onlyYou' : 'onlyYouAll')
  if (nodes.holders <= 0) return page('have', { count: holders })
  return page('haveWho', { count: holders, who: peopleText(holders, Math.min(holders, nodes.holders)) })
}

/** How many people have the page open. */
export function lookingSentence({ watching, nodes = NO_NODES }: Counts): string {
  return page('looking', { count: Math.max(0, watching - nodes.watching) })
}

/** The copies of the page, whole and in part, and the effect of closing this tab. */
export function heldSentence({ watching, holders, partial, nodes = NO_NODES }: Counts, ownCopy: OwnCopy): string {
  if (ownCopy === 'all' && holders === 1) return page(watching <= 1 ? 'closing' : 'stay')
  const others = holders <= 0 ? othersWithParts(partial, ownCopy) : partial
  return [wholeSentence(holders, nodes.holders, ownCopy), partsSentence(others, nodes.partial)].filter((part) => part !== '').join(' ')
}

function othersWithParts(partial: number, ownCopy: OwnCopy): number {
  return Math.max(0, partial - (ownCopy === 'some' ? 1 : 0))
}

function wholeSentence(holders: number, nodes: number, ownCopy: OwnCopy): string {
  if (holders <= 0) return ''
  const who = peopleText(holders, Math.min(holders, Math.max(0, nodes)))
  return ownCopy === 'all' ? page('wholeWithOurs', { who }) : page('whole', { count: holders, who })
}

function partsSentence(others: number, nodes: number): string {
  if (others === 0) return ''
  return nodes > 0 ? page('partsWith', { who: peopleText(others, Math.min(others, nodes)) }) : page('parts', { count: others })
}

/** Names a number of holders, `nodes` of them not tabs. A reader knows neither term: a tab is a person, a node a computer. */
function peopleText(count: number, nodes: number): string {
  const people = page('people', { count: count - nodes })
  if (nodes <= 0) return people
  const computers = page('computers', { count: nodes })
  return nodes >= count ? computers : page('both', { people, computers })
}

/** The peers that send the missing part; `direct` of them are connected directly, `nodes` of them are not tabs. */
export function peersSentence(peers: number, direct = 0, nodes = 0): string {
  if (nodes > 0) {
    const who = peopleText(nodes, nodes)
    return nodes >= peers ? page('fromWho', { who }) : page('andFrom', { people: peersSentence(peers - nodes, direct), who })
  }
  if (direct === 0) return page('from', { count: peers })
  return direct >= peers ? page('directly', { count: peers }) : page('partlyDirectly', { count: peers, direct })
}
