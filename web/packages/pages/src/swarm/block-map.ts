import type { PeerId } from '../bitswap/index.ts'
import type { Cid } from '../content/index.ts'
import type { BlockMap, Rarest } from './api.ts'
import type { Copies, BlockAvailability } from './block-availability.ts'

/** The places of these blocks of a page. `blocks`: all known blocks, in the order of the page. */
export function mapBlocks(
  blocks: readonly Cid[],
  isHere: (cid: Cid) => boolean,
  availability: BlockAvailability,
  isNode: (peer: PeerId) => boolean,
): BlockMap {
  const here = Uint8Array.from(blocks, (cid) => (isHere(cid) ? 1 : 0))
  const known = availability.copiesOf(
    blocks.map(({ key }) => key),
    isNode,
  )
  return { here, elsewhere: known.copies, rarest: rarestOf(here, known) }
}

/** Of the blocks that anybody has, this tab included, those with the fewest copies. */
function rarestOf(here: Uint8Array, { copies: elsewhere, inNodes, holders, nodes }: Copies): Rarest | null {
  let copies = Infinity
  let blocks = 0
  let marks = 0
  let isOurs = false
  let nodeCopies: number | null = null
  for (const [i, ours] of here.entries()) {
    const all = ours + (elsewhere[i] ?? 0)
    if (all === 0 || all > copies) continue
    if (all < copies) {
      copies = all
      blocks = 0
      marks = 0
      isOurs = false
      nodeCopies = inNodes[i] ?? 0
    }
    if (nodeCopies !== inNodes[i]) nodeCopies = null
    blocks++
    marks |= holders[i] ?? 0
    isOurs ||= ours === 1
  }
  if (blocks === 0) return null
  return { copies, blocks, holders: onesOf(marks) + (isOurs ? 1 : 0), isOurs, nodes: onesOf(marks & nodes), inNodes: nodeCopies }
}

function onesOf(bits: number): number {
  let count = 0
  for (let rest = bits >>> 0; rest !== 0; rest = (rest & (rest - 1)) >>> 0) count++
  return count
}
