import type { Bytes } from './bytes.ts'
import { RAW, type Cid, type CidKey } from './cid.ts'
import { ContentError, malformed } from './error.ts'
import { HAMT_ROOT, hamtPathBelow, type HamtPath } from './shard.ts'
import type { BlockStore } from './block-store.ts'
import { decodeFsNode, isEntryName, type FsNode } from './unixfs.ts'
import { DEPTH_MAX } from './dag-walk.ts'

/** A file of a page, as far as the blocks are here. */
export interface FileEntry {
  /** Empty if the page is a single file. */
  readonly path: string
  readonly cid: Cid
  /** `null` while the block that states it is missing. */
  readonly size: number | null
}

/** Entries of a page, and parts of a file, at most. Shared blocks can describe far more than they contain. */
export const ENTRIES_MAX = 65_536
export const PARTS_MAX = 262_144

/**
 * The files below `root`, in the order of the directories. Directories that are missing, and symbolic links, are left
 * out. `null` while the root is missing.
 */
export function listFiles(store: BlockStore, root: Cid): FileEntry[] | null {
  if (root.codec !== RAW && !store.has(root)) return null
  const files: FileEntry[] = []
  const nodes = decodedOnce(store)
  let visits = 0
  const visit = (cid: Cid, path: string, statedSize: number | null, depth: number, trail: HamtPath): void => {
    if (depth >= DEPTH_MAX) throw new ContentError({ kind: 'too-deep', depthMax: DEPTH_MAX })
    if (++visits > ENTRIES_MAX) throw new ContentError({ kind: 'too-many', what: 'entries', max: ENTRIES_MAX })
    if (cid.codec === RAW) {
      if (trail.bits > 0) throw malformed('noShard')
      files.push({ path, cid, size: store.size(cid) ?? statedSize })
      return
    }
    const node = nodes(cid)
    // Below a shard there are only shards.
    if (node !== null && trail.bits > 0 && node.kind !== 'shard') throw malformed('noShard')
    // The kind is not known yet. Most likely it is a file.
    if (node === null) {
      files.push({ path, cid, size: null })
      return
    }
    switch (node.kind) {
      case 'leaf':
        files.push({ path, cid, size: node.bytes.length })
        return
      case 'file':
        files.push({ path, cid, size: node.size })
        return
      case 'symlink':
        return
      case 'directory':
        for (const link of node.links) visit(link.cid, join(path, link.name), link.dagBytes, depth + 1, HAMT_ROOT)
        return
      case 'shard':
        for (const link of node.links) {
          const below = hamtPathBelow(trail, node.fanout, link)
          if (!link.isShard) visit(link.cid, join(path, link.name), link.dagBytes, depth + 1, HAMT_ROOT)
          else if (store.has(link.cid)) visit(link.cid, path, link.dagBytes, depth + 1, below)
        }
        return
    }
  }
  visit(root, '', null, 0, HAMT_ROOT)
  if (new Set(files.map(({ path }) => path)).size < files.length) throw malformed('entryTwice')
  return files
}

function join(path: string, name: string): string {
  if (!isEntryName(name)) throw malformed('entryName')
  return path === '' ? name : `${path}/${name}`
}

/** The bytes of a file whose blocks are all here. Blobs are not copied. */
export function readFile(store: BlockStore, file: Cid, type = ''): Blob {
  const parts: (Bytes | Blob)[] = []
  const nodes = decodedOnce(store)
  const read = new Map<CidKey, FileNode>()
  const append = (cid: Cid, statedSize: number | null, depth: number): void => {
    if (depth >= DEPTH_MAX) throw new ContentError({ kind: 'too-deep', depthMax: DEPTH_MAX })
    if (parts.length >= PARTS_MAX) throw new ContentError({ kind: 'too-many', what: 'parts', max: PARTS_MAX })
    const node = read.get(cid.key) ?? fileNodeOf(store, nodes, cid)
    read.set(cid.key, node)
    const { size, own, children } = node
    if (statedSize !== null && statedSize !== size) throw malformed('blockSize')
    if (own !== null) parts.push(own)
    for (const child of children) append(child.cid, child.size, depth + 1)
  }
  append(file, null, 0)
  return new Blob(parts, { type })
}

interface FileNode {
  readonly size: number
  readonly own: Bytes | Blob | null
  readonly children: readonly { cid: Cid; size: number }[]
}

function fileNodeOf(store: BlockStore, nodes: (cid: Cid) => FsNode | null, cid: Cid): FileNode {
  if (cid.codec === RAW) {
    const block = store.get(cid)
    const size = store.size(cid)
    if (block === null || size === null) throw new ContentError({ kind: 'missing', cid: cid.text })
    // A leaf that is made when it is read needs to be awaited.
    if (!(block instanceof Uint8Array || block instanceof Blob)) throw new ContentError({ kind: 'missing', cid: cid.text })
    return { size, own: block, children: [] }
  }
  const node = nodes(cid)
  switch (node?.kind) {
    case undefined:
      throw new ContentError({ kind: 'missing', cid: cid.text })
    case 'leaf':
      return { size: node.bytes.length, own: node.bytes, children: [] }
    case 'file':
      // Skips empty children. A few blocks could list any number of them.
      return {
        size: node.size,
        own: node.bytes.length > 0 ? node.bytes : null,
        children: node.children.filter((child) => child.size > 0),
      }
    case 'directory':
    case 'shard':
    case 'symlink':
      throw malformed('noFile')
  }
}

/** Decodes each block at most once, however often it is linked. `null` for a block that is missing. */
function decodedOnce(store: BlockStore): (cid: Cid) => FsNode | null {
  const decoded = new Map<CidKey, FsNode>()
  return (cid) => {
    const before = decoded.get(cid.key)
    if (before !== undefined) return before
    const block = store.get(cid)
    if (block === null) return null
    if (!(block instanceof Uint8Array)) throw malformed('innerKept')
    const node = decodeFsNode(cid, block)
    decoded.set(cid.key, node)
    return node
  }
}
