import type { Bytes } from './bytes.ts'
import { RAW, type Cid, type CidKey } from './cid.ts'
import type { Leaf } from './store.ts'
import { decodeFsNode } from './unixfs.ts'
import { childrenOf, DEPTH_MAX } from './walk.ts'

/**
 * All blocks of a page that are known from those that are here, each once, as its reader would meet them: an inner one
 * before what it leads to. Only for pages whose inner blocks a `DagWalk` has found to be well made.
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
