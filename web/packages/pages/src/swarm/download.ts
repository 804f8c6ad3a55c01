import type { Input, Want } from '../bitswap/index.ts'
import {
  BLOCKS_MAX,
  blocksInOrder,
  DagWalk,
  decodedNodesOf,
  DEPTH_MAX,
  findFile,
  listingWork,
  type BlockStore,
  type Bytes,
  type Cid,
  type FileListing,
  type FindResult,
  type PausingWork,
  type WantedBlock,
} from '../content/index.ts'
import type { Have } from './api.ts'
import type { LivePage } from './live/index.ts'

/** Blocks that are here already and are found in one task, so that the page's thread answers in between. */
const FOUND_AT_ONCE = 200

/** The present and the missing blocks of a page. Methods throw a `ContentError` if the content is invalid. */
export class Download {
  readonly store: BlockStore
  readonly walk: DagWalk
  readonly #ownsStore: boolean
  /** `null` for pages that are not live, and until `begin`. */
  #live: LivePage | null = null
  /** The first block of a live page, until `begin`. `undefined` until there is one. */
  #beginning: Bytes | null | undefined
  #isStarted = false
  /** Known blocks of which it is not found out yet whether they are here. */
  #unsought: WantedBlock[] = []
  #hasLost = false
  /** The bytes that the store was told to expect. */
  #expected = 0

  /** `ownsStore`: `clear` removes the blocks. */
  constructor(root: Cid, pageBytesMax: number, store: BlockStore, { ownsStore }: { ownsStore: boolean }) {
    const limits = { bytesMax: pageBytesMax, blocksMax: BLOCKS_MAX, depthMax: DEPTH_MAX }
    this.walk = new DagWalk(root, limits, (cid, block) => decodedNodesOf(store).decode(cid, block))
    this.store = store
    this.#ownsStore = ownsStore
  }

  /** The part of the page that this tab can serve. */
  get have(): Have {
    if (this.#hasLost) return this.store.blocks > 0 ? 'some' : 'none'
    if (this.isComplete) return 'all'
    return this.walk.progress.blocksDone > 0 ? 'some' : 'none'
  }

  /** Whether every block is here: of a live page, those of all entries that are known. */
  get isComplete(): boolean {
    return this.walk.isComplete && (this.#live?.isComplete ?? true)
  }

  get live(): LivePage | null {
    return this.#live
  }

  /** The first block of a live page that waits for `begin`, if there is one. */
  get beginning(): Bytes | null | undefined {
    return this.#beginning
  }

  /** The page with this first block is live; `null`: the block is not valid, as the walk finds out. Returns inputs for the exchange. */
  begin(live: LivePage | null, bytes: Bytes): Input[] {
    this.#beginning = null
    this.#live = live
    return this.#wantMissing(this.#arrived(this.walk.root, bytes.length, bytes))
  }

  /** The history of the live page has changed. Returns inputs for the exchange. */
  followLive(): Input[] {
    return this.#wantMissing(this.#wantedOfLive())
  }

  /** Lists the files that are known. `null` until the root has arrived. */
  *list(): PausingWork<FileListing | null> {
    return this.#live?.list(this.store) ?? (yield* listingWork(this.store, this.walk.root))
  }

  /** Follows a path without listing directories. */
  find(path: string): FindResult {
    return this.#live?.find(this.store, path) ?? findFile(this.store, this.walk.root, path)
  }

  /** The known blocks in the order of the page. */
  blocksInOrder(): Cid[] {
    return this.#live?.blocksInOrder(this.store) ?? blocksInOrder(this.store, this.walk.root)
  }

  /** Whether the blocks that are here already are known. */
  get isStarted(): boolean {
    return this.#isStarted && this.#unsought.length === 0
  }

  /**
   * Finds the first blocks that are here and those that are missing, once the store is restored. Returns inputs for the
   * exchange. `findMore` goes on until `isStarted`.
   */
  start(): Input[] {
    this.#isStarted = true
    return this.#wantMissing(this.walk.start(), FOUND_AT_ONCE)
  }

  findMore(): Input[] {
    return this.#wantMissing(this.#unsought, FOUND_AT_ONCE)
  }

  /** Stores a verified block. Returns inputs for the exchange. */
  storeBlock(cid: Cid, bytes: Bytes): Input[] {
    this.store.put(cid, bytes)
    return [{ kind: 'stored', cid, length: bytes.length }, ...this.#wantMissing(this.#arrived(cid, bytes.length, bytes))]
  }

  /** Some stored blocks cannot be read any more. They are not fetched again. */
  markLost(): void {
    this.#hasLost = true
  }

  /** Removes the blocks from the store, if this page owns it. */
  clear(): void {
    if (this.#ownsStore) this.store.clear()
  }

  /** A block is here. Returns the blocks to fetch: those that it links to, or that it makes known of a live page. */
  #arrived(cid: Cid, size: number, bytes: Bytes | null): WantedBlock[] {
    const isRoot = cid.key === this.walk.root.key
    if (bytes === null || (isRoot && this.#live)) return this.walk.arrived(cid, size, null)
    if (isRoot && this.#beginning === undefined && isMarkedLive(bytes)) {
      this.#beginning = bytes
      return []
    }
    if (!this.#live?.isNode(cid)) return this.walk.arrived(cid, size, bytes)
    this.#live.insert(cid, bytes)
    return [...this.walk.arrived(cid, size, null), ...this.#wantedOfLive()]
  }

  #wantedOfLive(): WantedBlock[] {
    return (this.#live?.takeWanted(this.store) ?? []).flatMap((wanted) => this.walk.add(wanted))
  }

  /** Wants missing blocks, and follows the links of blocks that are here: at most `blocksMax` blocks, the rest later. */
  #wantMissing(wanted: WantedBlock[], blocksMax = Infinity): Input[] {
    const inputs: Input[] = []
    const missing: Want[] = []
    for (let looked = 0; looked < blocksMax; looked++) {
      const next = wanted.pop()
      if (next === undefined) break
      const block = this.store.get(next.cid)
      const size = this.store.size(next.cid)
      if (block === null || size === null) {
        // Inner blocks are more urgent: nothing can be shown before they are here.
        missing.push({ cid: next.cid, length: next.size, urgency: next.rank === 'inner' ? 1 : 0 })
        continue
      }
      inputs.push({ kind: 'stored', cid: next.cid, length: size })
      wanted.push(...this.#arrived(next.cid, size, block instanceof Uint8Array ? block : null))
    }
    if (blocksMax !== Infinity) this.#unsought = wanted
    if (missing.length > 0) inputs.push({ kind: 'want', wants: missing.reverse() })
    const { bytesTotal } = this.walk.progress
    // A live page grows.
    if (bytesTotal !== null && bytesTotal > this.#expected) {
      this.#expected = bytesTotal
      this.store.expect(bytesTotal)
    }
    return inputs
  }
}

/** Whether the first block of a page is that of a live page. Its data follow a tag, and a length of one or two bytes. */
function isMarkedLive(bytes: Bytes): boolean {
  return /^.{2,3}watchfire live /s.test(new TextDecoder('latin1').decode(bytes.subarray(0, 18)))
}
