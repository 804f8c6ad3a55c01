import { swarm } from '../words/swarm.ts'
import { isSameBytes, type Bytes } from './bytes.ts'
import { inlineBytes, SHA2_256, type Cid, type CidKey } from './cid.ts'
import { ContentError } from './error.ts'
import { sha256 } from './sha256.ts'

/** A leaf that is read when it is asked for: a slice of a file, or something made from one. */
export interface Leaf {
  readonly size: number
  arrayBuffer(): Promise<ArrayBuffer>
}

/** What a store has to say while it is used, as a sentence for people. */
export type StoreNews =
  /** These blocks were here and cannot be read any more. */
  | { readonly kind: 'lost'; readonly cids: readonly Cid[]; readonly sentence: string }
  | { readonly kind: 'trouble'; readonly sentence: string }

/** Blocks of one page, by CID, wherever they lie. */
export interface Blocks {
  readonly blocks: number
  readonly bytes: number
  has(cid: Cid): boolean
  /** The block's length in bytes; `null` when it is not here. */
  size(cid: Cid): number | null
  /** The block as it is kept, without waiting. Blocks of other codecs than raw are always bytes. */
  get(cid: Cid): Bytes | Leaf | null
  /** Keeps a verified block; throws a `ContentError` when there is no room for it. */
  put(cid: Cid, block: Bytes | Leaf): void
  /** Rejects with a `ContentError` when the block is not here, or what it was read from has changed or gone since. */
  read(cid: Cid): Promise<Bytes>
  /** What is here from an earlier visit is known when this settles; `null` when there is nothing to wait for. */
  readonly restored: Promise<void> | null
  /** Settles when more may be put, for whoever would rather wait than fill the memory; `null` when that is now. */
  room(): Promise<void> | null
  /** So many bytes are to come in all. */
  expect(bytes: number): void
  listen(listener: (news: StoreNews) => void): void
  /** Forgets all blocks, and removes what was kept of them. */
  clear(): void
}

/**
 * Blocks in memory, or as slices of the files that they came from, which are read when asked for. At `bytesMax` a
 * further block is refused with a `ContentError`.
 */
export class BlockStore implements Blocks {
  readonly restored = null
  readonly #blocks = new Map<CidKey, Bytes | Leaf>()
  readonly #sources = new Map<string, Cid[]>()
  readonly #sourceOf = new Map<CidKey, string>()
  readonly #listeners: ((news: StoreNews) => void)[] = []
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

  size(cid: Cid): number | null {
    const block = this.get(cid)
    return block === null ? null : sizeOf(block)
  }

  get(cid: Cid): Bytes | Leaf | null {
    return this.#blocks.get(cid.key) ?? inlineBytes(cid)
  }

  /** `source` names the file that the block is a slice of: if one slice of it has changed, none is served any more. */
  put(cid: Cid, block: Bytes | Leaf, source?: string): void {
    if (this.has(cid)) return
    const bytes = this.#bytes + sizeOf(block)
    if (bytes > this.#bytesMax) {
      throw new ContentError({ kind: 'too-large', bytes, bytesMax: this.#bytesMax })
    }
    this.#bytes = bytes
    this.#blocks.set(cid.key, block)
    if (source === undefined) return
    this.#sourceOf.set(cid.key, source)
    const slices = this.#sources.get(source)
    if (slices === undefined) this.#sources.set(source, [cid])
    else slices.push(cid)
  }

  async read(cid: Cid): Promise<Bytes> {
    const block = this.get(cid)
    if (block === null) throw new ContentError({ kind: 'missing', cid: cid.text })
    if (block instanceof Uint8Array) return block
    const bytes = await readSlice(cid, block)
    if (bytes !== null) return bytes
    this.#withdraw(cid)
    throw new ContentError({ kind: 'missing', cid: cid.text })
  }

  room(): null {
    return null
  }

  expect(): void {}

  listen(listener: (news: StoreNews) => void): void {
    this.#listeners.push(listener)
  }

  clear(): void {
    this.#blocks.clear()
    this.#sources.clear()
    this.#sourceOf.clear()
    this.#bytes = 0
  }

  /** A file that has changed in one place is not what was shared; nobody is told that we have any of it. */
  #withdraw(cid: Cid): void {
    // Others may have asked for it meanwhile: once is enough.
    if (!this.#blocks.has(cid.key)) return
    const source = this.#sourceOf.get(cid.key)
    const cids = (source === undefined ? null : this.#sources.get(source)) ?? [cid]
    for (const { key } of cids) {
      const block = this.#blocks.get(key)
      if (block === undefined) continue
      this.#bytes -= sizeOf(block)
      this.#blocks.delete(key)
      this.#sourceOf.delete(key)
    }
    if (source !== undefined) this.#sources.delete(source)
    const sentence = source === undefined ? swarm('changedNameless') : swarm('changed', { name: source })
    for (const listener of this.#listeners) listener({ kind: 'lost', cids, sentence })
  }
}

/**
 * A block out of a file; `null` when the file has changed or gone. Browsers notice a change by the time of it, and not
 * every change: so what was read is hashed before it goes anywhere.
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

export function sizeOf(block: Bytes | Leaf): number {
  return block instanceof Uint8Array ? block.length : block.size
}
