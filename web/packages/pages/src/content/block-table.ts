import { isSameBytes, type Bytes } from './bytes.ts'
import { inlineBytes, SHA2_256, type Cid, type CidKey } from './cid.ts'
import { missing } from './error.ts'
import { sha256 } from './sha256.ts'

/** A leaf that is read when needed: a slice of a file, or something made from one. */
export interface Leaf {
  readonly size: number
  arrayBuffer(): Promise<ArrayBuffer>
}

/** An event of a store, with a sentence for people. */
export type StoreEvent =
  /** Blocks that were here cannot be read any more. */
  | { readonly kind: 'lost'; readonly cids: readonly Cid[]; readonly sentence: string }
  | { readonly kind: 'trouble'; readonly sentence: string }

/** The blocks of a store by CID, and the listeners of its events. */
export abstract class BlockTable<Block extends Bytes | Leaf> {
  protected readonly table = new Map<CidKey, Block>()
  protected tableBytes = 0
  readonly #listeners: ((event: StoreEvent) => void)[] = []

  get blocks(): number {
    return this.table.size
  }

  get bytes(): number {
    return this.tableBytes
  }

  has(cid: Cid): boolean {
    return this.table.has(cid.key) || inlineBytes(cid) !== null
  }

  size(cid: Cid): number | null {
    const block = this.get(cid)
    return block === null ? null : sizeOf(block)
  }

  get(cid: Cid): Block | Bytes | null {
    return this.table.get(cid.key) ?? inlineBytes(cid)
  }

  /** Reads a block. Rejects if it is not here, or if its file has changed: then the block is withdrawn. */
  async read(cid: Cid): Promise<Bytes> {
    const block: Bytes | Leaf | null = this.get(cid)
    if (block === null) throw missing(cid)
    if (block instanceof Uint8Array) return block
    const bytes = await readSlice(cid, block)
    if (bytes !== null) return bytes
    this.withdraw(cid)
    throw missing(cid)
  }

  listen(listener: (event: StoreEvent) => void): void {
    this.#listeners.push(listener)
  }

  /** The file of this block has changed or is gone. */
  protected abstract withdraw(cid: Cid): void

  protected notify(event: StoreEvent): void {
    // An async function, so that one which throws is reported, and the others are called.
    this.#listeners.forEach(async (listener) => listener(event))
  }
}

export function sizeOf(block: Bytes | Leaf): number {
  return block instanceof Uint8Array ? block.length : block.size
}

/**
 * Reads a block from a file. `null` if the file has changed or is gone. Browsers detect a change by the modification
 * time, which misses some changes, so the bytes are hashed again.
 */
export async function readSlice(cid: Cid, slice: Leaf): Promise<Bytes | null> {
  try {
    const bytes = new Uint8Array(await slice.arrayBuffer())
    if (cid.hash === SHA2_256 && !isSameBytes(await sha256(bytes), cid.digest)) return null
    return bytes
  } catch {
    return null
  }
}
