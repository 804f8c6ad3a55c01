import {
  ContentError,
  decodeFsNode,
  DEPTH_MAX,
  malformed,
  nodeIn,
  RAW,
  type Bytes,
  type Cid,
  type Leaf,
  type FsNode,
} from '../content/index.ts'

/** The blocks that are here. */
export interface LocalBlocks {
  has(cid: Cid): boolean
  size(cid: Cid): number | null
  get(cid: Cid): Bytes | Leaf | null
  read(cid: Cid): Promise<Bytes>
}

/** The block that contains, or leads to, the bytes of a file from `from` up to `to`. */
export type Part = { readonly cid: Cid; readonly from: number; readonly to: number; readonly isHere: boolean }

/** The positions of a file's bytes in its blocks, as far as its nodes are here. */
export class FileTree {
  readonly size: number
  readonly #blocks: LocalBlocks
  readonly #top: Cid

  private constructor(blocks: LocalBlocks, top: Cid) {
    this.#blocks = blocks
    this.#top = top
    this.size = this.#nodeOf(top).size
  }

  /** Returns `null` while the root block is not here. Throws if it is not a file. */
  static open(blocks: LocalBlocks, top: Cid): FileTree | null {
    return blocks.has(top) ? new FileTree(blocks, top) : null
  }

  /** The part with the byte at `position`. `position` must be below `size`. */
  partAt(position: number): Part {
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

  /** Missing blocks between two positions, the nearest first. Checks at most `blocksMax` blocks. */
  absent(from: number, to: number, blocksMax: number): Cid[] {
    const absent: Cid[] = []
    for (let at = from, looks = 0; at < Math.min(to, this.size) && looks < blocksMax; looks++) {
      const part = this.partAt(at)
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
    const node = nodeIn(this.#blocks, cid)
    if (node === null) throw malformed('innerKept')
    return node
  }
}

/** Skips children without bytes. A few blocks could list any number of them. */
function childAt(children: readonly { cid: Cid; size: number }[], start: number, position: number) {
  let from = start
  for (const { cid, size } of children) {
    if (position < from + size) return { cid, from, size }
    from += size
  }
  throw malformed('sizeSum')
}
