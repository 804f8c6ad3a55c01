import {
  ContentError, decodeFsNode, DEPTH_MAX, malformed, RAW, type Bytes, type Cid, type Leaf, type CidKey, type FsNode,
} from '../content/index.ts'

/** What reading needs of the blocks that are here. */
export interface HeldBlocks {
  has(cid: Cid): boolean
  size(cid: Cid): number | null
  get(cid: Cid): Bytes | Leaf | null
  read(cid: Cid): Promise<Bytes>
}

/** Nodes kept decoded: a few levels, at a few places. */
const NODES_MAX = 32

/** The block that has, or leads to, the bytes of a file from `from` up to `to`. */
export type Part = { readonly cid: Cid; readonly from: number; readonly to: number; readonly isHere: boolean }

/** Where in its blocks a file's bytes are, as far as the nodes that are here tell. */
export class FileTree {
  readonly size: number
  readonly #blocks: HeldBlocks
  readonly #top: Cid
  readonly #nodes = new Map<CidKey, FsNode>()

  private constructor(blocks: HeldBlocks, top: Cid) {
    this.#blocks = blocks
    this.#top = top
    this.size = this.#nodeOf(top).size
  }

  /** `null` while the block on top is not here; throws for what is no file. */
  static over(blocks: HeldBlocks, top: Cid): FileTree | null {
    return blocks.has(top) ? new FileTree(blocks, top) : null
  }

  /** The part with the byte at `position`, which is below `size`. */
  at(position: number): Part {
    let cid = this.#top
    let from = 0
    let size = this.size
    for (let depth = 0; depth < DEPTH_MAX; depth++) {
      if (!this.#blocks.has(cid)) return { cid, from, to: from + size, isHere: false }
      const node = this.#nodeOf(cid)
      if (node.size !== size) throw malformed('blockSize')
      if (position < from + node.ownBytes) return { cid, from, to: from + node.ownBytes, isHere: true }
      const child = childAt(node.children, from + node.ownBytes, position)
      cid = child.cid
      from = child.from
      size = child.size
    }
    throw new ContentError({ kind: 'too-deep', depthMax: DEPTH_MAX })
  }

  /** The bytes of a part that is here. */
  async bytesOf({ cid, from, to }: Part): Promise<Bytes> {
    const block = await this.#blocks.read(cid)
    if (cid.codec === RAW) return block
    const node = decodeFsNode(cid, block)
    return node.kind === 'leaf' || node.kind === 'file' ? node.bytes.subarray(0, to - from) : new Uint8Array()
  }

  /** Blocks that are absent between two places, nearest first; no more than `blocksMax` blocks are looked at. */
  absent(from: number, to: number, blocksMax: number): Cid[] {
    const absent: Cid[] = []
    for (let at = from, looks = 0; at < Math.min(to, this.size) && looks < blocksMax; looks++) {
      const part = this.at(at)
      if (!part.isHere) absent.push(part.cid)
      at = part.to
    }
    return absent
  }

  #nodeOf(cid: Cid): { size: number; ownBytes: number; children: readonly { cid: Cid; size: number }[] } {
    if (cid.codec === RAW) {
      const size = this.#blocks.size(cid) ?? 0
      return { size, ownBytes: size, children: [] }
    }
    const node = this.#decoded(cid)
    switch (node.kind) {
      case 'leaf':
        return { size: node.bytes.length, ownBytes: node.bytes.length, children: [] }
      case 'file':
        return { size: node.size, ownBytes: node.bytes.length, children: node.children }
      case 'directory':
      case 'shard':
      case 'symlink':
        throw malformed('noFile')
    }
  }

  #decoded(cid: Cid): FsNode {
    const known = this.#nodes.get(cid.key)
    if (known !== undefined) return known
    const block = this.#blocks.get(cid)
    if (!(block instanceof Uint8Array)) throw malformed('innerKept')
    const node = decodeFsNode(cid, block)
    // Leaves would keep their bytes here.
    if (node.kind !== 'leaf') this.#nodes.set(cid.key, node)
    if (this.#nodes.size > NODES_MAX) for (const oldest of this.#nodes.keys()) {
      this.#nodes.delete(oldest)
      break
    }
    return node
  }
}

/** Children without bytes are passed over: a few blocks could spell out any number of them. */
function childAt(children: readonly { cid: Cid; size: number }[], start: number, position: number) {
  let from = start
  for (const { cid, size } of children) {
    if (position < from + size) return { cid, from, size }
    from += size
  }
  throw malformed('sizeSum')
}
