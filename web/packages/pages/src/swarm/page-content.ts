import type { Block, Input } from '../bitswap/index.ts'
import { ContentError, nextTask, problemSentence, type BlockStore, type Bytes, type Cid, type StoreEvent } from '../content/index.ts'
import { swarm } from '../messages/swarm.ts'
import type { Have, Listing, LoadLivePage, PageFile, PageProblem } from './api.ts'
import { Download } from './download.ts'
import { FileRequests } from './file-requests.ts'
import type { LivePage } from './live/index.ts'
import { StreamingReads } from './streaming-reads.ts'

export interface PageContentDeps {
  /** Whether the page has failed or is closed. Store events are then ignored. */
  readonly isOver: () => boolean
  /** Passes inputs to the exchange. */
  readonly handleInputs: (inputs: readonly Input[]) => void
  /** `have` may have changed. */
  readonly onHave: () => void
  /** Something went wrong, but the page goes on. */
  readonly onProblem: (problem: PageProblem) => void
  /** The page is live, and has begun. `onChange` is called when blocks become known. */
  readonly onLive: (page: LivePage, onChange: () => void) => void
  /** Without it, a live page fails: its first block is no file and no directory. */
  readonly loadLive: LoadLivePage | undefined
  /** `listing` has more files. The list of very many is made in several tasks. */
  readonly onListed: () => void
  /** The content is invalid. The page can never be shown. */
  readonly onFailure: (error: ContentError) => void
}

/** The content of an open page: its blocks, its files, and the readers of files that are still loading. */
export class PageContent {
  readonly #deps: PageContentDeps
  readonly #root: Cid
  readonly #download: Download
  readonly #files: FileRequests
  readonly #reads: StreamingReads
  /** The result of `findLocalBlocks`, for `start`. */
  #firstInputs: readonly Input[] | ContentError = []
  /** Whether the store has no room for more blocks. */
  #isFull = false
  #begun: Promise<LivePage | null> | null = null

  /** `ownsStore`: the blocks are removed from the store when the page is closed. */
  constructor(root: Cid, pageBytesMax: number, store: BlockStore, ownsStore: boolean, deps: PageContentDeps) {
    this.#deps = deps
    this.#root = root
    this.#download = new Download(root, pageBytesMax, store, { ownsStore })
    this.#files = new FileRequests(this.#download, deps)
    this.#reads = new StreamingReads({
      blocks: store,
      find: (path) => this.#download.find(path),
      setUrgent: (cids) => deps.handleInputs([{ kind: 'set-urgent', cids }]),
    })
  }

  /** Finds out which blocks are here already. Does nothing while the blocks of an earlier visit are being restored. */
  findLocalBlocks(): void {
    if (this.#download.store.restored === null) this.#firstInputs = attempt(() => this.#download.start())
  }

  /** Requests the missing blocks: at once, or when the blocks of an earlier visit are restored. */
  start(): void {
    const { store } = this.#download
    this.#apply(this.#firstInputs)
    store.listen((event) => this.#handleStoreEvent(event))
    if (store.restored === null) void this.#findRest()
    void store.restored?.then(() => {
      if (this.#deps.isOver()) return
      this.#reads.recheckAll()
      this.#apply(attempt(() => this.#download.start()))
      void this.#findRest()
    })
  }

  /** Finds the other blocks that are here, in a task for each few. Thousands at once would stop the page for long. */
  async #findRest(): Promise<void> {
    while (!this.#download.isStarted) {
      await nextTask()
      if (this.#deps.isOver()) return
      this.#apply(attempt(() => this.#download.findMore()))
    }
  }

  /** The part of the page that this tab can serve. */
  get have(): Have {
    return this.#download.have
  }

  /** Whether the blocks that are here already are known. */
  get isStarted(): boolean {
    return this.#download.isStarted
  }

  /** Whether no block of the page is here, and its first block is the only one that can be requested. */
  get needsRoot(): boolean {
    return this.isStarted && !this.#isFull && this.have === 'none' && !this.isComplete
  }

  get isComplete(): boolean {
    return this.#download.isComplete
  }

  /** Whether the listing has all files that are known. Begins the list of a page of many files. */
  get isListed(): boolean {
    return this.#files.isListed
  }

  get progress() {
    return this.#download.walk.progress
  }

  /** `null` for pages that are not live, and until the page has begun. */
  get live(): LivePage | null {
    return this.#download.live
  }

  /** The live page, once its code is loaded. `null` for pages that are not live, and until the root is here. */
  get begun(): Promise<LivePage | null> | null {
    return this.#begun
  }

  isPartOfPage(cid: Cid): boolean {
    return this.#download.walk.isKnown(cid)
  }

  /** The known blocks in the order of the page, and whether each is here. `null` until the root has arrived. */
  blocks(): { readonly cids: readonly Cid[]; readonly isHere: (cid: Cid) => boolean } | null {
    const { store, walk } = this.#download
    if (walk.progress.blocksDone === 0) return null
    return { cids: this.#download.blocksInOrder(), isHere: (cid) => store.has(cid) }
  }

  /** Stores a verified block that the exchange received. */
  storeBlock({ cid, data }: Block): void {
    const inputs = attempt(() => this.#download.storeBlock(cid, data))
    // First, so that blocks that readers wait for are requested before the other blocks that this one links to.
    if (!(inputs instanceof ContentError)) this.#reads.handleBlock(cid)
    this.#apply(inputs)
  }

  listing(): Listing | null {
    return this.#files.listing()
  }

  file(path: string, options: { signal?: AbortSignal; type?: string }): Promise<Blob> {
    return this.#files.request(path, options)
  }

  open(path: string, options: { signal?: AbortSignal }): Promise<PageFile> {
    return this.#reads.open(path, options)
  }

  /** Resolves or rejects the requests for files that can be settled now. */
  settleFiles(): void {
    this.#files.settle()
  }

  /** Rejects everything that waits for content. */
  end(reason: unknown): void {
    this.#files.end(reason)
    this.#reads.end(reason)
  }

  /** Removes the blocks from the store, if this page owns it. */
  clear(): void {
    this.#download.clear()
  }

  #apply(inputs: readonly Input[] | ContentError): void {
    // First, because peers may hold their answers to the requests on a large page.
    this.#deps.onHave()
    if (!(inputs instanceof ContentError)) this.#deps.handleInputs(inputs)
    else if (inputs.problem.kind === 'no-room') this.#stopForSpace(inputs)
    else this.#deps.onFailure(inputs)
    const { beginning } = this.#download
    if (beginning) this.#begun ??= this.#beginLive(beginning)
  }

  /** The first block is that of a live page. Loads the code for it. */
  async #beginLive(beginning: Bytes): Promise<LivePage | null> {
    const { loadLive, isOver, onLive, onProblem } = this.#deps
    const { store } = this.#download
    try {
      const live = (await loadLive?.(this.#root, beginning, store)) ?? null
      const kept = (await live?.keptHeads(store.notes)) ?? []
      if (isOver()) return null
      const inputs = attempt(() => this.#download.begin(live, beginning))
      const onChange = () => this.#apply(attempt(() => this.#download.followLive()))
      if (live !== null) onLive(live, onChange)
      this.#apply(inputs)
      // The entries of an earlier visit are in the store.
      live?.resume(kept)
      this.#reads.recheckAll()
      return live
    } catch {
      // The code did not load. A reload tries again.
      onProblem({ fatal: false, sentence: swarm('failed') })
    }
    return null
  }

  /** Stops the download, because the store is full. The blocks that are here stay, and are served. */
  #stopForSpace(error: ContentError): void {
    if (this.#isFull) return
    this.#isFull = true
    this.#deps.handleInputs([{ kind: 'cancel-wants', cids: this.#download.walk.missing() }])
    this.#reads.stopWaiting(error)
    this.#files.stopWaiting(error)
    this.#deps.onProblem({ fatal: false, sentence: swarm('full', { reason: problemSentence(error.problem) }) })
  }

  #handleStoreEvent(event: StoreEvent): void {
    if (this.#deps.isOver()) return
    if (event.kind === 'lost') {
      this.#download.markLost()
      this.#deps.onHave()
    }
    this.#deps.onProblem({ fatal: false, sentence: event.sentence })
  }
}

/** Returns the `ContentError` that invalid content causes, instead of throwing it. */
function attempt<Done>(step: () => Done): Done | ContentError {
  try {
    return step()
  } catch (error) {
    if (error instanceof ContentError) return error
    throw error
  }
}
