import type { Leaf } from './block-table.ts'
import { cidOf, RAW, type Cid } from './cid.ts'

/** A leaf with its CID. */
export interface HashedLeaf {
  readonly cid: Cid
  readonly block: Leaf
  readonly size: number
}

export async function hashLeaf(block: Leaf): Promise<HashedLeaf> {
  const bytes = new Uint8Array(await block.arrayBuffer())
  return { cid: await cidOf(RAW, bytes), block, size: bytes.length }
}
