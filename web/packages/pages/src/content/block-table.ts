import type { Bytes } from './bytes.ts'
import { inlineBytes, type Cid, type CidKey } from './cid.ts'

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

  listen(listener: (event: StoreEvent) => void): void {
    this.#listeners.push(listener)
  }

  protected notify(event: StoreEvent): void {
    for (const listener of this.#listeners) listener(event)
  }
}

export function sizeOf(block: Bytes | Leaf): number {
  return block instanceof Uint8Array ? block.length : block.size
}
