import type { Leaf } from './block-table.ts'
import type { Bytes } from './bytes.ts'
import { RAW, type Cid, type CidKey } from './cid.ts'
import { malformed } from './error.ts'
import { decodeFsNode, type FsNode } from './unixfs.ts'

/** Links in the decoded nodes that are kept. When the limit is reached, the node that was decoded first is dropped. */
const LINKS_MAX = 65_536

/** The blocks that are here. Blocks that are not raw are always bytes. */
export interface HeldBlocks {
  get(cid: Cid): Bytes | Leaf | null
}

/** The decoded nodes of a page. Its download, its list and its readers need the same ones. */
export class DecodedNodes {
  readonly #nodes = new Map<CidKey, FsNode>()
  readonly #linksMax: number
  #links = 0

  constructor(linksMax = LINKS_MAX) {
    this.#linksMax = linksMax
  }

  /** Decodes a verified block, unless it was decoded before. */
  decode(cid: Cid, block: Bytes): FsNode {
    const known = this.#nodes.get(cid.key)
    if (known !== undefined) return known
    const node = decodeFsNode(cid, block)
    this.#keep(cid.key, node)
    return node
  }

  #keep(key: CidKey, node: FsNode): void {
    const links = linksIn(node)
    // A kept leaf would keep its bytes in memory.
    if (links === 0) return
    this.#nodes.set(key, node)
    this.#links += links
    for (const [oldest, dropped] of this.#nodes) {
      if (this.#links <= this.#linksMax || oldest === key) return
      this.#nodes.delete(oldest)
      this.#links -= linksIn(dropped)
    }
  }
}

const ofStores = new WeakMap<HeldBlocks, DecodedNodes>()

/** The decoded nodes of a store. */
export function decodedNodesOf(store: HeldBlocks): DecodedNodes {
  const known = ofStores.get(store)
  if (known !== undefined) return known
  const made = new DecodedNodes()
  ofStores.set(store, made)
  return made
}

/** The node of a block that is not raw. `null` if the block is missing. */
export function nodeIn(store: HeldBlocks, cid: Cid): FsNode | null {
  const block = store.get(cid)
  if (block === null) return null
  if (!(block instanceof Uint8Array) || cid.codec === RAW) throw malformed('innerKept')
  return decodedNodesOf(store).decode(cid, block)
}

function linksIn(node: FsNode): number {
  switch (node.kind) {
    case 'leaf':
    case 'symlink':
      return 0
    case 'file':
      return node.children.length
    case 'directory':
    case 'shard':
      return node.links.length
  }
}
