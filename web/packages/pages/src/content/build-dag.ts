import { compareBytes, utf8, type Bytes } from './bytes.ts'
import { cidOf, DAG_PB, type Cid } from './cid.ts'
import type { PbLink } from './dag-pb.ts'
import { ContentError } from './error.ts'
import { buildShards, hashEntries } from './build-shards.ts'
import type { Leaf } from './block-table.ts'
import { hashLeaf } from './hash-leaf.ts'
import { SmallFiles } from './small-files.ts'
import { forEachItem, inTasks, ItemCount, nextTask, type PausingWork } from './tasks.ts'
import { dagBytesOf, encodeDirectory, encodeFile, isEntryName, type FileChild } from './unixfs.ts'

/** The parameters by which content is chunked into blocks. */
export interface Profile {
  readonly chunkBytes: number
  readonly linksMax: number
  /** A directory with a larger block is split into shards, as in kubo. */
  readonly directoryBytesMax: number
}

/** kubo's profile of that name. The same bytes get the same CID in both. */
export const unixfsV1_2025: Profile = { chunkBytes: 1 << 20, linksMax: 1024, directoryBytesMax: 256 * 1024 }

/** The source of a file: a `Blob`, or an object that makes each leaf when it is read. */
export interface LeafSource {
  readonly size: number
  slice(from: number, to: number): Leaf
}

/** A new block: bytes, or the slice of the file for a leaf. */
export interface BuiltBlock {
  readonly cid: Cid
  readonly block: Bytes | Leaf
  readonly size: number
  /** For a leaf, the path of its file in the directory. Absent for other blocks and for a single file. */
  readonly path?: string
}

/** The root of what was built. */
export interface BuiltRoot {
  readonly cid: Cid
  /** Bytes of all files below. */
  readonly size: number
  /** Bytes of the root block and all blocks below it. */
  readonly dagBytes: number
}

export interface BuildOptions {
  readonly profile?: Profile
  readonly signal?: AbortSignal
}

/** Leaves hashed at the same time. Enough to keep the disk and the CPU busy, and all that is in memory. */
const LEAVES_AT_ONCE = 4

/** Chunks one file and yields its blocks, leaves first. Returns its root. */
export async function* buildFile(file: LeafSource, options: BuildOptions = {}, path?: string): AsyncGenerator<BuiltBlock, BuiltRoot> {
  const profile = options.profile ?? unixfsV1_2025
  let level: (FileChild & { dagBytes: number })[] = []
  for await (const leaf of leaves(file, profile.chunkBytes, options.signal)) {
    level.push({ cid: leaf.cid, size: leaf.size, dagBytes: leaf.size })
    yield path === undefined ? leaf : { ...leaf, path }
  }
  while (level.length > 1) {
    const above: typeof level = []
    for (let from = 0; from < level.length; from += profile.linksMax) {
      const children = level.slice(from, from + profile.linksMax)
      const block = encodeFile(children)
      const cid = await cidOf(DAG_PB, block)
      yield { cid, block, size: block.length }
      const size = children.reduce((sum, child) => sum + child.size, 0)
      above.push({ cid, size, dagBytes: dagBytesOf(block, children) })
    }
    level = above
  }
  const [root] = level
  if (root === undefined) throw new Error('a file has at least one leaf')
  return root
}

async function* leaves(file: LeafSource, chunkBytes: number, signal: AbortSignal | undefined): AsyncGenerator<BuiltBlock> {
  const count = Math.max(1, Math.ceil(file.size / chunkBytes))
  const start = (i: number): Promise<BuiltBlock> => {
    const leaf = hashLeaf(file.slice(i * chunkBytes, (i + 1) * chunkBytes))
    // It is awaited later. Until then, a rejection must not count as unhandled.
    leaf.catch(() => {})
    return leaf
  }
  const started = Array.from({ length: Math.min(count, LEAVES_AT_ONCE) }, (_, i) => start(i))
  let next = started.length
  // The list grows while it is read: each leaf that is hashed starts another one.
  for (const leaf of started) {
    signal?.throwIfAborted()
    const hashed = await leaf
    if (next < count) started.push(start(next++))
    yield hashed
  }
}

/** A file with its path, such as `trip/cat.png`. */
export interface NamedBlob {
  readonly path: string
  readonly blob: Blob
}

type Tree = Map<string, Blob | Tree>

/** Builds a directory from files with paths, and from paths of empty directories. Returns the outermost directory. */
export async function* buildDirectory(
  files: readonly NamedBlob[],
  options: BuildOptions = {},
  emptyFolders: readonly string[] = [],
): AsyncGenerator<BuiltBlock, BuiltRoot> {
  const tree = await inTasks(plant(files, emptyFolders), options.signal)
  const { chunkBytes } = options.profile ?? unixfsV1_2025
  return yield* buildTree(tree, '', { ...options, small: new SmallFiles(filesIn(tree), chunkBytes), count: new ItemCount() })
}

interface TreeOptions extends BuildOptions {
  readonly small: SmallFiles
  /** Counts the entries: a folder without files is built without waiting. */
  readonly count: ItemCount
}

async function* buildTree(tree: Tree, path: string, options: TreeOptions): AsyncGenerator<BuiltBlock, BuiltRoot> {
  const links: (PbLink & { dagBytes: number; sortedBy: Uint8Array })[] = []
  const { directoryBytesMax } = options.profile ?? unixfsV1_2025
  let size = 0
  let nameBytes = 0
  for (const [name, child] of tree) {
    if (options.count.isPauseDue()) await nextTask()
    const built =
      child instanceof Map ? yield* buildTree(child, `${path}${name}/`, options) : yield* buildEntry(child, `${path}${name}`, options)
    size += built.size
    const sortedBy = utf8(name)
    nameBytes += sortedBy.length
    links.push({ cid: built.cid, name, dagBytes: built.dagBytes, sortedBy })
  }
  const buildSharded = async function* () {
    options.signal?.throwIfAborted()
    return { ...(yield* buildShards(await inTasks(hashEntries(links), options.signal))), size }
  }
  // Sorting and encoding thousands of links only to measure them would stop the page.
  if (nameBytes + links.length * LINK_BYTES_MIN > directoryBytesMax) return yield* buildSharded()
  links.sort((a, b) => compareBytes(a.sortedBy, b.sortedBy))
  const block = encodeDirectory(links)
  if (block.length > directoryBytesMax) {
    return yield* buildSharded()
  }
  const cid = await cidOf(DAG_PB, block)
  yield { cid, block, size: block.length }
  return { cid, size, dagBytes: dagBytesOf(block, links) }
}

/** The length of a link without its name, at least: its CID, and the tags and lengths of its fields. */
const LINK_BYTES_MIN = 36 + 8

async function* buildEntry(file: Blob, path: string, options: TreeOptions): AsyncGenerator<BuiltBlock, BuiltRoot> {
  const leaf = await options.small.leafOf(file)
  if (leaf === null) return yield* buildFile(file, options, path)
  options.signal?.throwIfAborted()
  yield { ...leaf, path }
  return { cid: leaf.cid, size: leaf.size, dagBytes: leaf.size }
}

/** All files of a tree, in the order in which they are built. */
function* filesIn(tree: Tree): Generator<Blob, void> {
  for (const child of tree.values()) {
    if (child instanceof Map) yield* filesIn(child)
    else yield child
  }
}

/** The deepest directory that is built, so that everything built can be read. */
const PATH_DEPTH_MAX = 24

function* plant(files: readonly NamedBlob[], emptyFolders: readonly string[]): PausingWork<Tree> {
  const root: Tree = new Map()
  const put = (path: string, child: Blob | Tree) => {
    const names = path.split('/')
    const refused = () => new ContentError({ kind: 'bad-path', path })
    if (names.length > PATH_DEPTH_MAX + 1 || !names.every(isEntryName) || !path.isWellFormed()) throw refused()
    const last = names.pop() ?? ''
    let tree = root
    for (const name of names) {
      const below = tree.get(name) ?? new Map<string, Blob | Tree>()
      if (!(below instanceof Map)) throw refused()
      tree.set(name, below)
      tree = below
    }
    if (tree.has(last)) throw refused()
    tree.set(last, child)
  }
  const count = new ItemCount()
  yield* forEachItem(files, ({ path, blob }) => put(path, blob), count)
  yield* forEachItem(emptyFolders, (path) => put(path, new Map()), count)
  return root
}
