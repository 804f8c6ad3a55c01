import type { BlockStore, Bytes, Cid, KeyStore } from '../../content/index.ts'
import { type Block, type Head, signHead, type SigningKey, storedSigningKey } from '../../live/index.ts'
import { livePages } from '../../messages/live.ts'
import { keyDatabase } from '../../storage/live/key-database.ts'
import { provideTabKeys } from '../../storage/tab-keys.ts'

/**
 * The key of a live page, in the tab that began the page.
 *
 * The key is stored beside the blocks of the page, so that a reload of the tab finds both. A page whose key signs two entries of one
 * number is split for ever, and that must not happen by accident. Say the tab has sent head 7 and reloads before that head is on the disk.
 * It would find head 6, and sign another entry 7. Or say the browser wakes up a tab from its cache while a copy of the tab has the same
 * key. So a head is stored with its key before any peer gets it, and only in place of the head that it continues. The database
 * decides, in one transaction, which of two tabs comes first. The other one adds nothing.
 */
export class Publisher {
  /** The last head that this tab signed before it was reloaded. */
  readonly signedBefore: Bytes | null
  readonly #key: SigningKey
  readonly #store: BlockStore
  /** `null`: the key ends with the tab, because it could not be stored. */
  #keyStore: KeyStore | null
  /** Whether the blocks are on the disk too. */
  #hasBlocks = true

  private constructor(key: SigningKey, store: BlockStore, keyStore: KeyStore | null, signedBefore: Bytes | null) {
    this.#key = key
    this.#store = store
    this.#keyStore = keyStore
    this.signedBefore = signedBefore
  }

  /** The publisher of a new page, whose first block is in the store. */
  static async begin(key: SigningKey, store: BlockStore): Promise<Publisher> {
    provideTabKeys(keyDatabase)
    const keyStore = (await store.flush()) ? store.key : null
    const isStored = keyStore !== null && key.stored !== null && (await succeeds(keyStore.put(key.stored)))
    return new Publisher(key, store, isStored ? keyStore : null, null)
  }

  /** The publisher of a page that this tab began before it was reloaded. `null` if it did not, or if the key is gone. */
  static async resume(publicKey: Bytes, store: BlockStore): Promise<Publisher | null> {
    provideTabKeys(keyDatabase)
    const stored = await store.key?.get().catch(() => null)
    if (!stored) return null
    return new Publisher(storedSigningKey(publicKey, stored.key), store, store.key, stored.head)
  }

  /** Whether a reload finds the key and all entries. */
  get survivesReload(): boolean {
    return this.#keyStore !== null && this.#hasBlocks
  }

  /** Stores the node of an entry, and signs that it is the last after the head `before`. */
  async sign(page: Cid, number: number, { cid, bytes }: Block, before: Head | null): Promise<Head> {
    this.#store.put(cid, bytes)
    this.#hasBlocks = await this.#store.flush()
    const head = await signHead(this.#key, page, number, cid)
    switch (await this.#storeHead(head, before)) {
      case 'stored':
        return head
      case 'overtaken':
        throw new Error(livePages('overtaken'))
      case 'removed':
        throw new Error(livePages('keyRemoved'))
    }
  }

  async #storeHead(head: Head, before: Head | null): Promise<'stored' | 'overtaken' | 'removed'> {
    if (this.#keyStore === null) return 'stored'
    try {
      return await this.#keyStore.signed(head.bytes, before?.bytes ?? null)
    } catch {
      // The disk is full, for example. A reload must not find a key that has signed more than is stored.
      if (!(await succeeds(this.#keyStore.remove()))) throw new Error(livePages('notStored'))
      this.#keyStore = null
      return 'stored'
    }
  }
}

function succeeds(work: Promise<void>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}
