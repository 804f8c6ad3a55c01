import { swarm } from '../messages/swarm.ts'
import { BlockTable, sizeOf, type Leaf, type StoreEvent } from './block-table.ts'
import type { Bytes } from './bytes.ts'
import type { Cid, CidKey } from './cid.ts'
import { ContentError } from './error.ts'

/** A key as it is stored: the private half, which cannot be exported, and the last head that it has signed, if there is one. */
export interface StoredKey {
  readonly key: CryptoKey
  readonly head: Bytes | null
}

/**
 * The effect of `signed`: the head is stored; another tab of this browser has signed one meanwhile, which is stored and stays; or the
 * key was removed.
 */
export type Signed = 'stored' | 'overtaken' | 'removed'

/** Stores the key of a live page beside the blocks of the page. It is removed with them. */
export interface KeyStore {
  /** Stores a new key, which has signed nothing yet. */
  put(key: CryptoKey): Promise<void>
  /** The key that this tab has stored, also before it was reloaded. `null` if there is none. */
  get(): Promise<StoredKey | null>
  /** The key has signed `head` after the head `before`. Stores it only if `before` is the stored one, in one transaction. */
  signed(head: Bytes, before: Bytes | null): Promise<Signed>
  remove(): Promise<void>
}

/** Stores the blocks of one page by CID. */
export interface BlockStore {
  readonly blocks: number
  readonly bytes: number
  has(cid: Cid): boolean
  /** The length of the block in bytes. `null` if it is not here. */
  size(cid: Cid): number | null
  /** The block as it is stored, without waiting. Blocks that are not raw are always bytes. */
  get(cid: Cid): Bytes | Leaf | null
  /** Stores a verified block. Throws a `ContentError` if there is no room for it. */
  put(cid: Cid, block: Bytes | Leaf): void
  /** Reads a block. Rejects with a `ContentError` if it is not here, or if its file has changed. */
  read(cid: Cid): Promise<Bytes>
  /** Settles when the blocks of an earlier visit are known. `null` if there is nothing to wait for. */
  readonly restored: Promise<void> | null
  /** Settles when there is room for more blocks. `null` if there is room now. */
  room(): Promise<void> | null
  /** Sets the expected number of bytes in all. */
  expect(bytes: number): void
  listen(listener: (event: StoreEvent) => void): void
  /** The notes that `putNote` stored in an earlier visit, not verified. Known when `restored` settles. */
  readonly notes: readonly Bytes[]
  /**
   * Stores a note of a few hundred bytes beside the blocks, instead of the one before: the heads of a live page. A store without a
   * disk drops it.
   */
  putNote(note: Bytes): void
  /** Writes all blocks to the disk at once. Returns whether all are there, so that a reload finds them. */
  flush(): Promise<boolean>
  /** `null` without a disk, and before it is opened: when `restored` settles, or by `flush`. */
  readonly key: KeyStore | null
  /** Removes all blocks, the notes and the key. */
  clear(): void
}

/**
 * Stores blocks in memory, or as slices of the files that they came from, which are read when needed. At `bytesMax`,
 * further blocks are rejected with a `ContentError`.
 */
export class MemoryBlockStore extends BlockTable<Bytes | Leaf> implements BlockStore {
  readonly restored = null
  readonly notes = []
  readonly key = null
  readonly #sources = new Map<CidKey, { readonly cid: Cid; readonly source: string }>()
  readonly #bytesMax: number

  constructor(bytesMax: number) {
    super()
    this.#bytesMax = bytesMax
  }

  /** `source`: the file that the block is a slice of. If one slice of it has changed, none is served any more. */
  put(cid: Cid, block: Bytes | Leaf, source?: string): void {
    if (this.has(cid)) return
    const bytes = this.tableBytes + sizeOf(block)
    if (bytes > this.#bytesMax) {
      throw new ContentError({ kind: 'too-large', bytes, bytesMax: this.#bytesMax })
    }
    this.tableBytes = bytes
    this.table.set(cid.key, block)
    if (source !== undefined) this.#sources.set(cid.key, { cid, source })
  }

  room(): null {
    return null
  }

  expect(): void {}

  putNote(_note: Bytes): void {}

  async flush(): Promise<boolean> {
    return false
  }

  clear(): void {
    this.table.clear()
    this.#sources.clear()
    this.tableBytes = 0
  }

  /** A file that has changed is not what was shared, so none of its blocks is served any more. */
  protected withdraw(cid: Cid): void {
    // Another read may have found the change already. One event is enough.
    if (!this.table.has(cid.key)) return
    const source = this.#sources.get(cid.key)?.source
    const ofSource = () => [...this.#sources.values()].flatMap((slice) => (slice.source === source ? slice.cid : []))
    const cids = source === undefined ? [cid] : ofSource()
    for (const { key } of cids) {
      const block = this.table.get(key)
      if (block === undefined) continue
      this.tableBytes -= sizeOf(block)
      this.table.delete(key)
      this.#sources.delete(key)
    }
    const sentence = source === undefined ? swarm('changedNameless') : swarm('changed', { name: source })
    this.notify({ kind: 'lost', cids, sentence })
  }
}
