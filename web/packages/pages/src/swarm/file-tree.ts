import { ContentError, DEPTH_MAX, fileNodeOf, malformed, sizeOf, type Bytes, type Cid, type Leaf } from '../content/index.ts'

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
    this.size = fileNodeOf(blocks, top).size
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
      const node = fileNodeOf(this.#blocks, cid)
      if (node.size !== size) throw malformed('blockSize')
      const ownEnd = from + sizeOf(node.own)
      if (position < ownEnd) return { cid, from, to: ownEnd, isHere: true }
      const child = childAt(node.children, ownEnd, position)
      cid = child.cid
      from = child.from
      size = child.size
    }
    throw new ContentError({ kind: 'too-deep', depthMax: DEPTH_MAX })
  }

  /** The bytes of a part that is here. */
  async bytesOf({ cid }: Part): Promise<Bytes> {
    const { own } = fileNodeOf(this.#blocks, cid)
    return own instanceof Uint8Array ? own : this.#blocks.read(cid)
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
