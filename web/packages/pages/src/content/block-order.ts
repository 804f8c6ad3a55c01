import { RAW, type Cid, type CidKey } from './cid.ts'
import { nodeIn, type HeldBlocks } from './decoded-nodes.ts'
import { childrenOf, DEPTH_MAX } from './dag-walk.ts'

/**
 * All known blocks of a page, each once, in reading order: an inner block before the blocks that it links to. Only for
 * pages whose inner blocks a `DagWalk` has validated.
 */
export function blocksInOrder(inner: HeldBlocks, root: Cid): Cid[] {
  const met = new Set<CidKey>()
  const order: Cid[] = []
  const visit = (cid: Cid, depth: number): void => {
    if (met.has(cid.key) || depth >= DEPTH_MAX) return
    met.add(cid.key)
    order.push(cid)
    const node = cid.codec === RAW ? null : nodeIn(inner, cid)
    if (node === null) return
    for (const child of childrenOf(node)) visit(child.cid, depth + 1)
  }
  visit(root, 0)
  return order
}
