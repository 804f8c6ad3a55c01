import type { BlockMap, PageState, PeerStatus, DirectStatus } from '@watchfire/pages/swarm'
import { holdersText } from '../messages/holders.ts'
import { numberText, secondsText, sizeText } from '../messages/index.ts'
import { panel } from '../messages/panel.ts'
import { missingRanges, countBlocks, type BlockCounts } from './block-runs.ts'

const RANGES_MAX = 3

/** A text alternative for the bar of blocks. */
export function pictureText({ total, here, elsewhere, nowhere }: BlockCounts): string {
  return panel('picture', {
    total,
    here: panel('here', { count: here }),
    elsewhere: panel('elsewhere', { count: elsewhere }),
    nowhere: panel('nowhere', { count: nowhere }),
  })
}

/** The rarest blocks. `null` if nothing is known. */
export function rarestSentence({ rarest, here }: BlockMap): string | null {
  if (rarest === null) return null
  const { copies, blocks: count, holders, isOurs, nodes, inNodes } = rarest
  if (copies > 1) {
    const where = holdersText(copies, inNodes)
    return count === here.length ? panel('everywhere', { where }) : panel('rarest', { count, where })
  }
  if (holders > 1) return panel('lastCopies', { count, where: holdersText(holders, nodes) })
  if (!isOurs) return panel(nodes > 0 ? 'lastCopyNode' : 'lastCopyOne', { count })
  return count === here.length ? panel('lastCopyAll') : panel('lastCopyHere', { count })
}

/** The blocks that no peer has. `null` if there are none. */
export function missingSentence(map: BlockMap): string | null {
  const { nowhere } = countBlocks(map)
  if (nowhere === 0) return null
  const { ranges, isCut } = missingRanges(map, RANGES_MAX)
  const numbers = ranges
    .map(({ from, to }) => (from === to ? panel('missingBlock', { n: from }) : panel('missingRange', { from, to })))
    .reduce((before, after) => panel('comma', { before, after }))
  return panel('missing', { count: nowhere, where: isCut ? panel('missingMore', { ranges: numbers }) : numbers })
}

/** The bytes that this browser sent and received. */
export function ratioSentence({ receivedBytes, sentBytes }: Pick<PageState, 'receivedBytes' | 'sentBytes'>): string {
  if (sentBytes === 0) return panel('gaveNothing')
  const given = sizeText(sentBytes)
  if (receivedBytes === 0) return panel('gaveOnly', { given })
  return panel('ratio', { given, taken: sizeText(receivedBytes), ratio: ratioText(sentBytes / receivedBytes) })
}

function ratioText(ratio: number): string {
  return panel('times', { n: numberText(ratio < 0.1 ? Math.round(ratio * 100) / 100 : Math.round(ratio * 10) / 10) })
}

/** The part of the page that a peer has. */
export function hasText({ have, blocks }: Pick<PeerStatus, 'have' | 'blocks'>, total: number | null): string {
  if (have === 'all') return panel('hasAll')
  if (blocks !== null && blocks > 0 && total !== null) return panel('hasOf', { n: blocks, total })
  return panel(have === 'some' ? 'hasSome' : 'hasNone')
}

/** The kind of connection to a peer, in one word. */
export function pathOf({ path, kind }: Pick<PeerStatus, 'path' | 'kind'>): PeerStatus['path'] | 'node' {
  return path === 'relay' && kind === 'node' ? 'node' : path
}

/** The reason why messages to a peer go directly or through the server. */
export function directSentence(reach: DirectStatus): string {
  switch (reach.kind) {
    case 'calling':
      return reach.hindrance === null ? panel('calling') : `${panel('calling')} ${panel(reach.hindrance)}`
    case 'untried':
    case 'mending':
      return panel(reach.kind)
    case 'up':
      return panel('directly')
    case 'none': {
      const why = panel(reach.why === 'node' ? 'ofNode' : reach.why)
      if (reach.why === 'absent' || reach.why === 'node') return why
      if (reach.again === null) return `${why} ${panel('notAgain')}`
      return reach.again > 0 ? `${why} ${panel('again', { wait: secondsText(reach.again) })}` : why
    }
  }
}
