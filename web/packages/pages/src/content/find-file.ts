import { RAW, type Cid } from './cid.ts'
import { ContentError } from './error.ts'
import { nodeIn, type HeldBlocks } from './decoded-nodes.ts'
import type { FsNode } from './unixfs.ts'
import { hashOf, slotOf } from './shard.ts'
import { DEPTH_MAX } from './dag-walk.ts'

/** The target of a path, as far as the blocks are here. */
export type FindResult =
  /** A file, most likely. Its own block is not checked. */
  | { readonly kind: 'file'; readonly cid: Cid }
  /** One of these missing blocks is needed to go on. */
  | { readonly kind: 'absent'; readonly cids: readonly Cid[] }
  | { readonly kind: 'nothing' }

/** Follows a path from the root without listing directories. `''` is the root itself. */
export function findFile(store: HeldBlocks, root: Cid, path: string): FindResult {
  let cid = root
  for (const name of path === '' ? [] : path.split('/')) {
    const entry = findEntry(store, cid, name)
    if (entry.kind !== 'file') return entry
    cid = entry.cid
  }
  return { kind: 'file', cid }
}

function findEntry(store: HeldBlocks, directory: Cid, name: string): FindResult {
  const hash = hashOf(name)
  let cid = directory
  let bits = 0
  for (let depth = 0; depth < DEPTH_MAX; depth++) {
    const node = nodeAt(store, cid)
    if (node === null) return { kind: 'absent', cids: [cid] }
    if (node.kind === 'directory') {
      const link = node.links.find((each) => each.name === name)
      return link === undefined ? { kind: 'nothing' } : { kind: 'file', cid: link.cid }
    }
    if (node.kind !== 'shard') return { kind: 'nothing' }
    // The hash of a name leads to its shard, so that no other shard is read.
    const slot = slotOf(hash, bits, node.fanout)
    const link = node.links.find((each) => each.slot === slot)
    if (link === undefined || (!link.isShard && link.name !== name)) return { kind: 'nothing' }
    if (!link.isShard) return { kind: 'file', cid: link.cid }
    cid = link.cid
    bits += Math.log2(node.fanout)
  }
  throw new ContentError({ kind: 'too-deep', depthMax: DEPTH_MAX })
}

function nodeAt(store: HeldBlocks, cid: Cid): FsNode | null {
  return cid.codec === RAW ? { kind: 'leaf', bytes: new Uint8Array() } : nodeIn(store, cid)
}
