import { RAW, type Cid } from './cid.ts'
import { ContentError } from './error.ts'
import type { MemoryBlockStore } from './block-store.ts'
import { decodeFsNode, type FsNode } from './unixfs.ts'
import { DEPTH_MAX } from './dag-walk.ts'

/** Blocks of one directory that are searched for one name. */
const SHARDS_MAX = 4096

/** The target of a path, as far as the blocks are here. */
export type FindResult =
  /** A file, most likely. Its own block is not checked. */
  | { readonly kind: 'file'; readonly cid: Cid }
  /** One of these missing blocks is needed to go on. */
  | { readonly kind: 'absent'; readonly cids: readonly Cid[] }
  | { readonly kind: 'nothing' }

/** Follows a path from the root without listing directories. `''` is the root itself. */
export function findFile(store: Pick<MemoryBlockStore, 'get'>, root: Cid, path: string): FindResult {
  let cid = root
  for (const name of path === '' ? [] : path.split('/')) {
    const entry = findEntry(store, cid, name)
    if (entry.kind !== 'file') return entry
    cid = entry.cid
  }
  return { kind: 'file', cid }
}

function findEntry(store: Pick<MemoryBlockStore, 'get'>, directory: Cid, name: string): FindResult {
  const absent: Cid[] = []
  let unseen = [{ cid: directory, depth: 0 }]
  for (let looks = 0; unseen.length > 0; ) {
    const further: typeof unseen = []
    for (const { cid, depth } of unseen) {
      if (++looks > SHARDS_MAX) throw new ContentError({ kind: 'too-many', what: 'entries', max: SHARDS_MAX })
      if (depth >= DEPTH_MAX) throw new ContentError({ kind: 'too-deep', depthMax: DEPTH_MAX })
      const node = nodeAt(store, cid)
      if (node === null) {
        absent.push(cid)
        continue
      }
      if (node.kind === 'directory') {
        const link = node.links.find((each) => each.name === name)
        if (link !== undefined) return { kind: 'file', cid: link.cid }
      } else if (node.kind === 'shard') {
        for (const link of node.links) {
          if (link.isShard) further.push({ cid: link.cid, depth: depth + 1 })
          else if (link.name === name) return { kind: 'file', cid: link.cid }
        }
      }
    }
    unseen = further
  }
  return absent.length > 0 ? { kind: 'absent', cids: absent } : { kind: 'nothing' }
}

function nodeAt(store: Pick<MemoryBlockStore, 'get'>, cid: Cid): FsNode | null {
  if (cid.codec === RAW) return { kind: 'leaf', bytes: new Uint8Array() }
  const block = store.get(cid)
  return block instanceof Uint8Array ? decodeFsNode(cid, block) : null
}
