import type { Bytes } from './bytes.ts'
import { inlineBytes, RAW, type Cid, type CidKey } from './cid.ts'
import type { PbLink } from './dag-pb.ts'
import { ContentError, malformed } from './error.ts'
import { dagBytesOf, decodeFsNode, isEntryName, type FsNode } from './unixfs.ts'

/** The limits of a page. Exceeding one is a `ContentError` as soon as it is known. */
export interface WalkLimits {
  /** Bytes of all files. All blocks together may have `dagBytesMax` of it. */
  readonly bytesMax: number
  readonly blocksMax: number
  readonly depthMax: number
}

/** Blocks of one page, and levels of blocks, at most. */
export const BLOCKS_MAX = 65_536
export const DEPTH_MAX = 32

/** Bytes of all blocks of a page whose files have `bytesMax` bytes together. The difference is for inner nodes. */
export function dagBytesMax(bytesMax: number): number {
  return Math.ceil(bytesMax * (1 + 1 / 64)) + (1 << 20)
}

/** A block of the page that is missing. */
export interface WantedBlock {
  readonly cid: Cid
  /** Its length in bytes, as its parent states. `null` if not stated. */
  readonly size: number | null
  /** `inner` blocks link to others, so they are needed first. */
  readonly rank: 'inner' | 'leaf'
}

/** A file's part of at most this many bytes is assumed to be one block. A dag-pb part can still be more. */
const LEAF_BYTES_MAX = 2 << 20

interface Known {
  readonly wanted: WantedBlock
  readonly depth: number
  arrived: boolean
  /** Linked blocks that are not whole, and blocks that link to this one. */
  unwholeChildren: number
  readonly parents: Known[]
}

/**
 * Finds out which blocks a page consists of, from its root down. Each block is visited once, however often it is
 * linked. Blocks may arrive in any order.
 */
export class DagWalk {
  readonly root: Cid
  readonly #limits: WalkLimits
  readonly #decode: (cid: Cid, block: Bytes) => FsNode
  readonly #known = new Map<CidKey, Known>()
  /** Missing blocks that may link to others. */
  #nodesOutstanding = 0
  #nodesDone = 0
  #blocksDone = 0
  #bytesDone = 0
  /** Bytes of missing blocks, as far as stated. */
  #bytesOutstanding = 0
  #declaredBytes: number | null = null

  constructor(root: Cid, limits: WalkLimits, decode = decodeFsNode) {
    this.root = root
    this.#limits = limits
    this.#decode = decode
  }

  /** Returns the first blocks to fetch: the root, unless its CID contains it. */
  start(): WantedBlock[] {
    return this.add({ cid: this.root, size: null, rank: this.root.codec === RAW ? 'leaf' : 'inner' })
  }

  /** Adds a block that no other block of the walk links to. Returns the blocks to fetch. */
  add(wanted: WantedBlock): WantedBlock[] {
    const found: WantedBlock[] = []
    this.#discover(wanted, 0, found)
    return found
  }

  isKnown(cid: Cid): boolean {
    return this.#known.has(cid.key)
  }

  /** Whether a block and all blocks below it have arrived. */
  isWhole(cid: Cid): boolean {
    const known = this.#known.get(cid.key)
    return known === undefined ? inlineBytes(cid) !== null : isWhole(known)
  }

  /** Known blocks that have not arrived. */
  missing(): Cid[] {
    return [...this.#known.values()].filter(({ arrived }) => !arrived).map(({ wanted }) => wanted.cid)
  }

  /** Blocks that have arrived and may link to others. A listing of files depends on them. */
  get nodesDone(): number {
    return this.#nodesDone
  }

  get isComplete(): boolean {
    return this.#known.size > 0 && this.#blocksDone === this.#known.size
  }

  get progress(): { blocksDone: number; blocksTotal: number | null; bytesDone: number; bytesTotal: number | null } {
    const allKnown = this.#known.size > 0 && this.#nodesOutstanding === 0
    const exact = this.root.codec === RAW && !this.isComplete ? null : this.#bytesDone + this.#bytesOutstanding
    return {
      blocksDone: this.#blocksDone,
      blocksTotal: allKnown ? this.#known.size : null,
      bytesDone: this.#bytesDone,
      bytesTotal: allKnown ? exact : this.#declaredBytes,
    }
  }

  /**
   * A verified block arrived. `bytes` may be `null` for a block whose links are not followed, such as a raw block. Returns the
   * blocks to fetch.
   */
  arrived(cid: Cid, size: number, bytes: Bytes | null): WantedBlock[] {
    const found: WantedBlock[] = []
    this.#arrive(cid, size, bytes, found)
    return found
  }

  #arrive(cid: Cid, size: number, bytes: Bytes | null, found: WantedBlock[]): void {
    const known = this.#known.get(cid.key)
    if (known === undefined || known.arrived) return
    known.arrived = true
    if (cid.codec !== RAW) {
      this.#nodesOutstanding--
      this.#nodesDone++
    }
    this.#bytesOutstanding -= known.wanted.size ?? 0
    this.#blocksDone++
    this.#bytesDone += size
    this.#refuseOver(this.#bytesDone, this.#dagBytesMax)
    if (bytes !== null && cid.codec !== RAW) this.#follow(known, bytes, found)
    else if (cid === this.root) this.#refuseOver(size, this.#limits.bytesMax)
    if (isWhole(known)) notifyParents(known)
  }

  #follow(known: Known, bytes: Bytes, found: WantedBlock[]): void {
    const { wanted, depth } = known
    const node = this.#decode(wanted.cid, bytes)
    if (node.kind === 'file') this.#refuseOver(node.size, this.#limits.bytesMax)
    const children = childrenOf(node)
    if (wanted.cid === this.root) {
      this.#declaredBytes = dagBytesOf(bytes, children)
      this.#refuseOver(this.#declaredBytes, this.#dagBytesMax)
    }
    const unwhole = new Set<Known>()
    for (const child of children) {
      const below = this.#discover(child, depth + 1, found)
      if (!isWhole(below)) unwhole.add(below)
    }
    known.unwholeChildren = unwhole.size
    for (const below of unwhole) below.parents.push(known)
  }

  #discover(wanted: WantedBlock, depth: number, found: WantedBlock[]): Known {
    const { cid } = wanted
    const before = this.#known.get(cid.key)
    if (before !== undefined) return before
    if (depth >= this.#limits.depthMax) throw new ContentError({ kind: 'too-deep', depthMax: this.#limits.depthMax })
    const max = this.#limits.blocksMax
    if (this.#known.size >= max) throw new ContentError({ kind: 'too-many', what: 'blocks', max })
    const known: Known = { wanted, depth, arrived: false, unwholeChildren: 0, parents: [] }
    this.#known.set(cid.key, known)
    if (cid.codec !== RAW) this.#nodesOutstanding++
    this.#bytesOutstanding += wanted.size ?? 0
    this.#refuseOver(this.#bytesDone + this.#bytesOutstanding, this.#dagBytesMax)
    const inline = inlineBytes(cid)
    // Recurses at most `depthMax` deep: the children of an inline node are one level below it.
    if (inline === null) found.push(wanted)
    else this.#arrive(cid, inline.length, inline, found)
    return known
  }

  get #dagBytesMax(): number {
    return dagBytesMax(this.#limits.bytesMax)
  }

  #refuseOver(bytes: number, bytesMax: number): void {
    if (bytes > bytesMax) throw new ContentError({ kind: 'too-large', bytes, bytesMax: this.#limits.bytesMax })
  }
}

function isWhole({ arrived, unwholeChildren }: Known): boolean {
  return arrived && unwholeChildren === 0
}

/** Each link is visited once in a walk, when everything below it has arrived. */
function notifyParents(whole: Known): void {
  const complete = [whole]
  for (let known = complete.pop(); known !== undefined; known = complete.pop()) {
    for (const parent of known.parents.splice(0)) {
      parent.unwholeChildren--
      if (isWhole(parent)) complete.push(parent)
    }
  }
}

/** The blocks that a node links to. */
export function childrenOf(node: FsNode): (WantedBlock & { dagBytes: number | null })[] {
  switch (node.kind) {
    case 'leaf':
    case 'symlink':
      return []
    case 'file':
      return node.children.map(({ cid, size, dagBytes }) =>
        cid.codec === RAW
          ? { cid, dagBytes, size, rank: 'leaf' }
          : { cid, dagBytes, size: null, rank: size > LEAF_BYTES_MAX ? 'inner' : 'leaf' },
      )
    case 'directory':
    case 'shard':
      return node.links.map(childOfDirectory)
  }
}

function childOfDirectory({
  cid,
  dagBytes,
  name,
  isShard = false,
}: PbLink & { readonly isShard?: boolean }): WantedBlock & { dagBytes: number | null } {
  if (!isShard && !isEntryName(name)) throw malformed('entryName')
  return cid.codec === RAW ? { cid, dagBytes, size: dagBytes, rank: 'leaf' } : { cid, dagBytes, size: null, rank: 'inner' }
}
