import type { Block, Input } from '../bitswap/index.ts'
import { ContentError, dagBytesMax, problemSentence, type BlockStore, type Bytes, type Cid, type StoreEvent } from '../content/index.ts'
import { livePages } from '../messages/live.ts'
import { swarm } from '../messages/swarm.ts'
import type { Head, Offer, SigningKey } from '../live/index.ts'
import type { Have, Listing, LiveSource, LoadLivePage, PageFile, PageProblem } from './api.ts'
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
  /** The page is live, and has begun. */
  readonly onLive: (page: LivePage) => void
  readonly loadLive: LoadLivePage
  /** The content is invalid. The page can never be shown. */
  readonly onFailure: (error: ContentError) => void
}

/** Entries of a live page that may wait to be appended. */
const APPENDS_MAX = 64

/** The content of an open page: its blocks, its files, and the readers of files that are still loading. */
export class PageContent {
  readonly #deps: PageContentDeps
  readonly #root: Cid
  readonly #pageBytesMax: number
  readonly #download: Download
  readonly #files: FileRequests
  readonly #reads: StreamingReads
  /** The result of `findLocalBlocks`, for `start`. */
  #firstInputs: readonly Input[] | ContentError = []
  /** Whether the store has no room for more blocks. */
  #isFull = false
  #isLoadingLive = false
  /** Resolves when the last entry of a live page is appended. */
  #appended: Promise<void> = Promise.resolve()
  #appending = 0

  /** `isOurs`: the blocks are in the store because this tab published the page. They stay there when the page is closed. */
  constructor(root: Cid, pageBytesMax: number, store: BlockStore, isOurs: boolean, deps: PageContentDeps) {
    this.#deps = deps
    this.#root = root
    this.#pageBytesMax = pageBytesMax
    this.#download = new Download(root, pageBytesMax, store, { isOurs })
    this.#files = new FileRequests(this.#download, deps.onFailure)
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
    void store.restored?.then(() => {
      if (this.#deps.isOver()) return
      this.#reads.recheckAll()
      this.#apply(attempt(() => this.#download.start()))
    })
  }

  /** The part of the page that this tab can serve. */
  get have(): Have {
    return this.#download.have
  }

  /** Whether the blocks that are here already are known. */
  get isStarted(): boolean {
    return this.#download.isStarted
  }

  get isComplete(): boolean {
    return this.#download.isComplete
  }

  get progress() {
    return this.#download.walk.progress
  }

  /** `null` for pages that are not live, and until the page has begun. */
  get live(): LivePage | null {
    return this.#download.live
  }

  /** Takes a verified head of the live page, and requests what it makes known. */
  offerHead(head: Head): Offer {
    const offer = this.live?.offer(head) ?? 'same'
    if (offer === 'newer' || offer === 'split') this.#apply(attempt(() => this.#download.followLive()))
    return offer
  }

  /** Appends an entry to the live page, after those that are being appended. Its blocks are served from now on. */
  async append(key: SigningKey, entry: LiveSource): Promise<void> {
    if (this.#appending >= APPENDS_MAX) throw new Error(livePages('busy'))
    this.#appending++
    const appended = this.#appended.then(() => this.#append(key, entry))
    this.#appended = appended.catch(() => undefined)
    try {
      await appended
    } finally {
      this.#appending--
    }
  }

  async #append(key: SigningKey, entry: LiveSource): Promise<void> {
    const { live, store } = this.#download
    if (live === null || this.#deps.isOver()) throw new Error(swarm('closed'))
    await live.append(key, entry, store, (bytes) => {
      const after = this.progress.bytesDone + bytes
      if (after > dagBytesMax(this.#pageBytesMax)) throw new ContentError({ kind: 'too-large', bytes: after, bytesMax: this.#pageBytesMax })
    })
    this.#apply(attempt(() => this.#download.followLive()))
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

  /** Removes the blocks from the store, unless this tab published them. */
  clear(): void {
    this.#download.clear()
  }

  #apply(inputs: readonly Input[] | ContentError): void {
    if (!(inputs instanceof ContentError)) this.#deps.handleInputs(inputs)
    else if (inputs.problem.kind === 'no-room') this.#stopForSpace(inputs)
    else this.#deps.onFailure(inputs)
    this.#deps.onHave()
    if (this.#download.beginning !== null && !this.#isLoadingLive) void this.#beginLive(this.#download.beginning)
  }

  /** The first block is that of a live page. Loads the code for it. */
  async #beginLive(beginning: Bytes): Promise<void> {
    this.#isLoadingLive = true
    try {
      const live = await this.#deps.loadLive(this.#root, beginning)
      if (this.#deps.isOver()) return
      const inputs = attempt(() => this.#download.begin(live))
      if (live !== null) this.#deps.onLive(live)
      this.#apply(inputs)
      this.#reads.recheckAll()
    } catch {
      // The code did not load. A reload tries again.
      this.#deps.onProblem({ fatal: false, sentence: swarm('failed') })
    }
  }

  /** Stops the download, because the store is full. The blocks that are here stay, and are served. */
  #stopForSpace(error: ContentError): void {
    if (this.#isFull) return
    this.#isFull = true
    this.#deps.handleInputs([{ kind: 'cancel-wants', cids: this.#download.walk.missing() }])
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
