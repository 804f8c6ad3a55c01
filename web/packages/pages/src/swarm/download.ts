import type { Input, Want } from '../bitswap/index.ts'
import { BLOCKS_MAX, DagWalk, DEPTH_MAX, type BlockStore, type Bytes, type Cid, type WantedBlock } from '../content/index.ts'
import type { Have } from './api.ts'

/** The present and the missing blocks of a page. Methods throw a `ContentError` if the content is invalid. */
export class Download {
  readonly store: BlockStore
  readonly walk: DagWalk
  readonly #ownsStore: boolean
  #isStarted = false
  #hasLost = false
  #isExpected = false

  /** `isOurs`: the blocks are in the store because this tab published the page. `clear` then keeps them. */
  constructor(root: Cid, pageBytesMax: number, store: BlockStore, { isOurs }: { isOurs: boolean }) {
    this.walk = new DagWalk(root, { bytesMax: pageBytesMax, blocksMax: BLOCKS_MAX, depthMax: DEPTH_MAX })
    this.store = store
    this.#ownsStore = !isOurs
  }

  /** The part of the page that this tab can serve. */
  get have(): Have {
    if (this.#hasLost) return this.store.blocks > 0 ? 'some' : 'none'
    if (this.walk.isComplete) return 'all'
    return this.walk.progress.blocksDone > 0 ? 'some' : 'none'
  }

  /** Whether the blocks that are here already are known. */
  get isStarted(): boolean {
    return this.#isStarted
  }

  /**
   * Finds the blocks that are here and those that are missing, once the store is restored. Returns inputs for the
   * exchange.
   */
  start(): Input[] {
    this.#isStarted = true
    return this.#wantMissing(this.walk.start())
  }

  /** Stores a verified block. Returns inputs for the exchange. */
  storeBlock(cid: Cid, bytes: Bytes): Input[] {
    this.store.put(cid, bytes)
    return [{ kind: 'stored', cid, length: bytes.length }, ...this.#wantMissing(this.walk.arrived(cid, bytes.length, bytes))]
  }

  /** Some stored blocks cannot be read any more. They are not fetched again. */
  markLost(): void {
    this.#hasLost = true
  }

  /** Removes the blocks from the store, unless this tab published them. */
  clear(): void {
    if (this.#ownsStore) this.store.clear()
  }

  /** Wants missing blocks, and follows the links of blocks that are here. */
  #wantMissing(wanted: WantedBlock[]): Input[] {
    const inputs: Input[] = []
    const missing: Want[] = []
    for (let next = wanted.pop(); next !== undefined; next = wanted.pop()) {
      const block = this.store.get(next.cid)
      const size = this.store.size(next.cid)
      if (block === null || size === null) {
        // Inner blocks are more urgent: nothing can be shown before they are here.
        missing.push({ cid: next.cid, length: next.size, urgency: next.rank === 'inner' ? 1 : 0 })
        continue
      }
      inputs.push({ kind: 'stored', cid: next.cid, length: size })
      wanted.push(...this.walk.arrived(next.cid, size, block instanceof Uint8Array ? block : null))
    }
    if (missing.length > 0) inputs.push({ kind: 'want', wants: missing.reverse() })
    const { bytesTotal } = this.walk.progress
    if (bytesTotal !== null && !this.#isExpected) {
      this.#isExpected = true
      this.store.expect(bytesTotal)
    }
    return inputs
  }
}
