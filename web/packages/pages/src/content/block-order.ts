import type { Bytes } from './bytes.ts'
import { RAW, type Cid, type CidKey } from './cid.ts'
import type { Leaf } from './block-table.ts'
import { decodeFsNode } from './unixfs.ts'
import { childrenOf, DEPTH_MAX } from './dag-walk.ts'

/**
 * All known blocks of a page, each once, in reading order: an inner block before the blocks that it links to. Only for
 * pages whose inner blocks a `DagWalk` has validated.
 */
export function blocksInOrder(inner: { get(cid: Cid): Bytes | Leaf | null }, root: Cid): Cid[] {
  const met = new Set<CidKey>()
  const order: Cid[] = []
  const visit = (cid: Cid, depth: number): void => {
    if (met.has(cid.key) || depth >= DEPTH_MAX) return
    met.add(cid.key)
    order.push(cid)
    const block = cid.codec === RAW ? null : inner.get(cid)
    if (!(block instanceof Uint8Array)) return
    for (const child of childrenOf(decodeFsNode(cid, block))) visit(child.cid, depth + 1)
  }
  visit(root, 0)
  return order
}
