import type { Input, Want } from '../bitswap/index.ts'
import { BLOCKS_MAX, DagWalk, DEPTH_MAX, type Blocks, type Bytes, type Cid, type WantedBlock } from '../content/index.ts'
import type { Have } from './api.ts'

/** What of a page is here, and what it still misses. Its steps throw a `ContentError` when the page makes no sense. */
export class Gathering {
  readonly store: Blocks
  readonly walk: DagWalk
  readonly #ownsStore: boolean
  #isStarted = false
  #hasLost = false
  #isExpected = false

  /** `isOurs`: the blocks were put there by publishing the page, and stay when it is closed. */
  constructor(root: Cid, pageBytesMax: number, store: Blocks, { isOurs }: { isOurs: boolean }) {
    this.walk = new DagWalk(root, { bytesMax: pageBytesMax, blocksMax: BLOCKS_MAX, depthMax: DEPTH_MAX })
    this.store = store
    this.#ownsStore = !isOurs
  }

  /** What we can serve of the page. */
  get have(): Have {
    if (this.walk.isComplete && !this.#hasLost) return 'all'
    return this.walk.progress.blocksDone > 0 ? 'some' : 'none'
  }

  /** Whether it is known what of the page is here already. */
  get isStarted(): boolean {
    return this.#isStarted
  }

  /** What the exchange is to be told at the beginning, once what was kept is restored. */
  start(): Input[] {
    this.#isStarted = true
    return this.#take(this.walk.start())
  }

  /** Keeps a verified block; what the exchange is to be told of it. */
  keep(cid: Cid, bytes: Bytes): Input[] {
    this.store.put(cid, bytes)
    return [{ kind: 'have', cid, length: bytes.length }, ...this.#take(this.walk.arrived(cid, bytes.length, bytes))]
  }

  /** Blocks that were here cannot be read any more. They are not fetched again. */
  lose(): void {
    this.#hasLost = true
  }

  /** Forgets the blocks, unless they are somebody else's. */
  clear(): void {
    if (this.#ownsStore) this.store.clear()
  }

  /** Wants what is missing; walks on through what is here already. */
  #take(wanted: WantedBlock[]): Input[] {
    const inputs: Input[] = []
    const missing: Want[] = []
    for (let next = wanted.pop(); next !== undefined; next = wanted.pop()) {
      const block = this.store.get(next.cid)
      const size = this.store.size(next.cid)
      if (block === null || size === null) {
        // Nobody knows what to show before the inner blocks are here.
        missing.push({ cid: next.cid, length: next.size, urgency: next.rank === 'inner' ? 1 : 0 })
        continue
      }
      inputs.push({ kind: 'have', cid: next.cid, length: size })
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
