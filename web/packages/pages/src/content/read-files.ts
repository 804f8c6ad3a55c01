import { compareBytes, utf8, type Bytes } from './bytes.ts'
import { RAW, type Cid, type CidKey } from './cid.ts'
import type { PbLink } from './dag-pb.ts'
import { ContentError, malformed, missing } from './error.ts'
import { HAMT_ROOT, hamtPathBelow, type HamtPath } from './shard.ts'
import type { BlockStore } from './block-store.ts'
import { sizeOf, type Leaf } from './block-table.ts'
import { nodeIn } from './decoded-nodes.ts'
import { isEntryName, modifiedOf, type FsNode } from './unixfs.ts'
import { DEPTH_MAX } from './dag-walk.ts'
import { inOneTask, ItemCount, sorted, type PausingWork } from './tasks.ts'

/** A file of a page, as far as the blocks are here. */
export interface FileEntry {
  /** Empty if the page is a single file. */
  readonly path: string
  readonly cid: Cid
  /** `null` while the block that states it is missing. */
  readonly size: number | null
  /** About its size, while that is unknown: the bytes of its blocks, as its directory states them. */
  readonly about?: number
  /** When it was changed last, in milliseconds since 1970, if its block says so. */
  readonly modified?: number
}

/** Entries of a page, and parts of a file, at most. Shared blocks can describe far more than they contain. */
export const ENTRIES_MAX = 65_536
export const PARTS_MAX = 262_144

/** The files of a page, as far as the blocks are here. */
export interface FileListing {
  /** Sorted within each directory by the bytes of their names, as the directories themselves are. */
  readonly files: readonly FileEntry[]
  /** Symbolic links. They are not among the files. */
  readonly links: number
  /** Whether no shard of a directory is missing. A missing block may still turn out to be a directory in place of a file. */
  readonly hasNames: boolean
  /** Whether no block that can add, name or measure an entry is missing. Until then, nothing in the listing is final. */
  readonly isFinal: boolean
}

/**
 * The files below `root`. A directory that is missing is an entry without a size, because it may be a file. The entries
 * of a shard that is missing are left out. `null` while the root is missing.
 */
export function listFiles(store: BlockStore, root: Cid): FileListing | null {
  return inOneTask(listingWork(store, root))
}

/** The same as work that pauses. Blocks that arrive meanwhile may be missing in the listing. */
export function* listingWork(store: BlockStore, root: Cid): PausingWork<FileListing | null> {
  if (root.codec !== RAW && !store.has(root)) return null
  const walk = new ListingWalk(store)
  yield* walk.visit(root, '', null, 0)
  return walk.listing()
}

/** An entry of a sharded directory: its link, the depth of its shard, and the bytes of its name. */
interface ShardEntry {
  readonly link: PbLink
  readonly depth: number
  readonly key: Uint8Array
}

class ListingWalk {
  readonly #store: BlockStore
  readonly #files: FileEntry[] = []
  #links = 0
  #hasNames = true
  #isFinal = true
  #visits = 0
  readonly #count = new ItemCount()
  readonly #decoded = new Map<CidKey, FsNode>()

  constructor(store: BlockStore) {
    this.#store = store
  }

  listing(): FileListing {
    const files = this.#files
    if (new Set(files.map(({ path }) => path)).size < files.length) throw malformed('entryTwice')
    return { files, links: this.#links, hasNames: this.#hasNames, isFinal: this.#isFinal }
  }

  *visit(cid: Cid, path: string, statedSize: number | null, depth: number): PausingWork<void> {
    this.#noteVisit(depth)
    if (this.#count.isPauseDue()) yield
    if (cid.codec === RAW) {
      this.#add({ path, cid, size: this.#store.size(cid) ?? statedSize })
      return
    }
    const node = this.#node(cid)
    switch (node?.kind) {
      // The kind is not known yet. Most likely it is a file.
      case undefined:
        this.#add({ path, cid, size: null, ...(statedSize === null ? {} : { about: statedSize }) })
        return
      case 'leaf':
      case 'file':
        this.#add({ path, cid, size: node.kind === 'file' ? node.size : node.bytes.length, ...modifiedOf(node) })
        return
      case 'symlink':
        this.#links++
        return
      case 'directory':
        for (const link of node.links) yield* this.visit(link.cid, join(path, link.name), link.dagBytes, depth + 1)
        return
      case 'shard': {
        const entries: ShardEntry[] = []
        yield* this.#collect(node, depth, HAMT_ROOT, entries)
        // Shards are in the order of hashes. Sorted, the listing is that of a directory in one block.
        const inOrder = yield* sorted(entries, (a, b) => compareBytes(a.key, b.key), this.#count)
        for (const { link, depth } of inOrder) yield* this.visit(link.cid, join(path, link.name), link.dagBytes, depth + 1)
        return
      }
    }
  }

  /** Adds the entries of a sharded directory, as far as its shards are here. */
  *#collect(shard: Extract<FsNode, { kind: 'shard' }>, depth: number, trail: HamtPath, entries: ShardEntry[]): PausingWork<void> {
    for (const link of shard.links) {
      if (this.#count.isPauseDue()) yield
      const below = hamtPathBelow(trail, shard.fanout, link)
      if (!link.isShard) {
        entries.push({ link, depth, key: utf8(link.name) })
        continue
      }
      this.#noteVisit(depth + 1)
      const node = this.#node(link.cid)
      // Below a shard there are only shards.
      if (link.cid.codec === RAW || (node !== null && node.kind !== 'shard')) throw malformed('noShard')
      if (node === null) {
        this.#hasNames = false
        this.#isFinal = false
      } else yield* this.#collect(node, depth + 1, below, entries)
    }
  }

  /** Decodes each block at most once, however often it is linked. `null` for a block that is missing. */
  #node(cid: Cid): FsNode | null {
    const node = this.#decoded.get(cid.key) ?? nodeIn(this.#store, cid)
    if (node !== null) this.#decoded.set(cid.key, node)
    return node
  }

  #add(entry: FileEntry): void {
    if (entry.size === null) this.#isFinal = false
    this.#files.push(entry)
  }

  #noteVisit(depth: number): void {
    if (depth >= DEPTH_MAX) throw new ContentError({ kind: 'too-deep', depthMax: DEPTH_MAX })
    if (++this.#visits > ENTRIES_MAX) throw new ContentError({ kind: 'too-many', what: 'entries', max: ENTRIES_MAX })
  }
}

function join(path: string, name: string): string {
  if (!isEntryName(name)) throw malformed('entryName')
  return path === '' ? name : `${path}/${name}`
}

/** The bytes of a file whose blocks are all here. Blobs are not copied. */
export function readFile(store: BlockStore, file: Cid, type = ''): Blob {
  const parts: (Bytes | Blob)[] = []
  const read = new Map<CidKey, FileNode>()
  const append = (cid: Cid, statedSize: number | null, depth: number): void => {
    if (depth >= DEPTH_MAX) throw new ContentError({ kind: 'too-deep', depthMax: DEPTH_MAX })
    if (parts.length >= PARTS_MAX) throw new ContentError({ kind: 'too-many', what: 'parts', max: PARTS_MAX })
    const node = read.get(cid.key) ?? fileNodeOf(store, cid)
    read.set(cid.key, node)
    const { size, own, children } = node
    if (statedSize !== null && statedSize !== size) throw malformed('blockSize')
    // A leaf that is made when it is read needs to be awaited.
    if (!(own instanceof Uint8Array || own instanceof Blob)) throw missing(cid)
    if (own instanceof Blob || own.length > 0) parts.push(own)
    for (const child of children) {
      // Skips empty children. A few blocks could list any number of them.
      if (child.size > 0) append(child.cid, child.size, depth + 1)
    }
  }
  append(file, null, 0)
  return new Blob(parts, { type })
}

/** A block of a file: the bytes that are in it, and the blocks of the bytes that follow them. */
export interface FileNode {
  readonly size: number
  readonly own: Bytes | Leaf
  readonly children: readonly { cid: Cid; size: number }[]
}

/** Throws if the block is missing, or is not a part of a file. */
export function fileNodeOf(blocks: Pick<BlockStore, 'get'>, cid: Cid): FileNode {
  if (cid.codec === RAW) {
    const own = blocks.get(cid)
    if (own === null) throw missing(cid)
    return { size: sizeOf(own), own, children: [] }
  }
  const node = nodeIn(blocks, cid)
  switch (node?.kind) {
    case undefined:
      throw missing(cid)
    case 'leaf':
      return { size: node.bytes.length, own: node.bytes, children: [] }
    case 'file':
      return { size: node.size, own: node.bytes, children: node.children }
    case 'directory':
    case 'shard':
    case 'symlink':
      throw malformed('noFile')
  }
}
