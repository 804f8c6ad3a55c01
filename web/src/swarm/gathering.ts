import {
  BLOCKS_MAX, BlockStore, dagBytesMax, DagWalk, DEPTH_MAX, RAW, type Bytes, type Cid, type WantedBlock,
} from '../content/index.ts'
import type { Have, Input } from '../exchange/index.ts'

/** What of a page is here, and what it still misses. Its steps throw a `ContentError` when the page makes no sense. */
export class Gathering {
  readonly store: BlockStore
  readonly walk: DagWalk
  readonly #ownsStore: boolean

  /** `store` is where the page was published; left out, nothing of it is here. */
  constructor(root: Cid, pageBytesMax: number, store?: BlockStore) {
    this.walk = new DagWalk(root, { bytesMax: pageBytesMax, blocksMax: BLOCKS_MAX, depthMax: DEPTH_MAX })
    this.store = store ?? new BlockStore(dagBytesMax(pageBytesMax))
    this.#ownsStore = store === undefined
  }

  get have(): Have {
    if (this.walk.isComplete) return 'all'
    return this.walk.progress.blocksDone > 0 ? 'some' : 'none'
  }

  /** What the exchange is to be told at the beginning. */
  start(): Input[] {
    return this.#take(this.walk.start())
  }

  /** Keeps a verified block; what the exchange is to be told of it. Leaves become blobs, which the browser may put on disk. */
  keep(cid: Cid, bytes: Bytes): Input[] {
    if (cid.codec === RAW) this.store.put(cid, new Blob([bytes]))
    // A small view would keep the whole message it came in.
    else this.store.put(cid, bytes.byteLength * 2 > bytes.buffer.byteLength ? bytes : bytes.slice())
    return this.#take(this.walk.arrived(cid, bytes.length, bytes))
  }

  /** Forgets the blocks, unless they are somebody else's. */
  clear(): void {
    if (this.#ownsStore) this.store.clear()
  }

  /** Wants what is missing; walks on through what is here already. */
  #take(wanted: WantedBlock[]): Input[] {
    const inputs: Input[] = []
    const missing: WantedBlock[] = []
    for (let next = wanted.pop(); next !== undefined; next = wanted.pop()) {
      const block = this.store.get(next.cid)
      const size = this.store.size(next.cid)
      if (block === null || size === null) {
        missing.push(next)
        continue
      }
      inputs.push({ kind: 'held', cid: next.cid, size })
      wanted.push(...this.walk.arrived(next.cid, size, block instanceof Uint8Array ? block : null))
    }
    if (missing.length > 0) inputs.push({ kind: 'want', blocks: missing.reverse() })
    return inputs
  }
}
