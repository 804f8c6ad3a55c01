import type { Bytes } from './bytes.ts'
import { inlineBytes, type Cid, type CidKey } from './cid.ts'
import { ContentError } from './error.ts'

/**
 * Blocks of one page, by CID: bytes, or slices of the files they came from, which are read when asked for.
 * At `bytesMax` a further block is refused with a `ContentError`.
 */
export class BlockStore {
  readonly #blocks = new Map<CidKey, Bytes | Blob>()
  readonly #bytesMax: number
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get blocks(): number {
    return this.#blocks.size
  }

  get bytes(): number {
    return this.#bytes
  }

  has(cid: Cid): boolean {
    return this.#blocks.has(cid.key) || inlineBytes(cid) !== null
  }

  /** The block's length in bytes; `null` when it is not here. */
  size(cid: Cid): number | null {
    const block = this.get(cid)
    return block === null ? null : sizeOf(block)
  }

  /** The block as it is kept, without waiting. Blocks of other codecs than raw are always bytes. */
  get(cid: Cid): Bytes | Blob | null {
    return this.#blocks.get(cid.key) ?? inlineBytes(cid)
  }

  put(cid: Cid, block: Bytes | Blob): void {
    if (this.has(cid)) return
    const bytes = this.#bytes + sizeOf(block)
    if (bytes > this.#bytesMax) {
      throw new ContentError({ kind: 'too-large', bytes, bytesMax: this.#bytesMax })
    }
    this.#bytes = bytes
    this.#blocks.set(cid.key, block)
  }

  /** Rejects with a `ContentError` when the block is not here, or its file has changed or gone since. */
  async read(cid: Cid): Promise<Bytes> {
    const block = this.get(cid)
    if (block === null) throw new ContentError({ kind: 'missing', cid: cid.text })
    if (block instanceof Uint8Array) return block
    try {
      return new Uint8Array(await block.arrayBuffer())
    } catch {
      throw new ContentError({ kind: 'missing', cid: cid.text })
    }
  }

  clear(): void {
    this.#blocks.clear()
    this.#bytes = 0
  }
}

function sizeOf(block: Bytes | Blob): number {
  return block instanceof Uint8Array ? block.length : block.size
}
