import {
  ContentError,
  forEachItem,
  inOneTask,
  nextTask,
  readFile,
  type Cid,
  type DagWalk,
  type FileListing,
  type PausingWork,
} from '../content/index.ts'
import type { Entry, Listing } from './api.ts'
import type { Download } from './download.ts'

interface FileRequest {
  readonly path: string
  readonly type: string
  readonly resolve: (file: Blob) => void
  readonly reject: (error: unknown) => void
}

/** How far the download was when the files were listed. */
interface DownloadedPart {
  readonly nodesDone: number
  readonly isComplete: boolean
}

/** A listing, and how much of the page was here when its files were marked as complete. */
interface MarkedListing {
  readonly known: FileListing
  readonly blocksDone: number
  readonly listing: Listing
}

/** A listing that is being made. */
interface ListingWork extends DownloadedPart {
  readonly steps: PausingWork<MarkedListing | null>
}

interface FileRequestsDeps {
  /** A listing that took several tasks is finished. */
  readonly onListed: () => void
  /** The content is invalid. */
  readonly onFailure: (error: ContentError) => void
}

/** The files of a page, and the requests that wait for one of them. */
export class FileRequests {
  readonly #download: Download
  readonly #deps: FileRequestsDeps
  readonly #requests = new Set<FileRequest>()
  /** The last listing. */
  #listed: DownloadedPart & { marked: MarkedListing | null } = { nodesDone: -1, isComplete: false, marked: null }
  /** The listing that is being made, in a task for each few files. */
  #work: ListingWork | null = null
  /** The files of the last listing by path, once one was requested. */
  #byPath: { listing: FileListing; cids: ReadonlyMap<string, Cid> } | null = null
  #end: unknown = null
  /** The reason why no more blocks arrive. Files whose blocks are all here are still given out. */
  #stopped: { reason: unknown } | null = null

  constructor(download: Download, deps: FileRequestsDeps) {
    this.#download = download
    this.#deps = deps
  }

  /** Whether the list has all files that the blocks that are here describe. Begins the list of a page of many files. */
  get isListed(): boolean {
    this.#known()
    return this.#isCurrent(this.#listed)
  }

  /** The files known so far. `null` until the root has arrived. The same object until more of the page is here. */
  listing(): Listing | null {
    const marked = this.#known()
    if (marked === null) return null
    if (marked.blocksDone !== this.#download.walk.progress.blocksDone) {
      this.#listed = { ...this.#listed, marked: inOneTask(markedListing(marked.known, this.#download.walk)) }
    }
    return this.#listed.marked?.listing ?? null
  }

  request(path: string, options: { signal?: AbortSignal; type?: string }): Promise<Blob> {
    const { signal, type = '' } = options
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const awaited: FileRequest = { path, type, resolve, reject }
      this.#requests.add(awaited)
      signal?.addEventListener('abort', () => {
        if (this.#requests.delete(awaited)) reject(signal.reason)
      })
      this.settle()
    })
  }

  /** No more files will arrive, for this reason. */
  end(reason: unknown): void {
    this.#end ??= reason
    this.settle()
  }

  /** No more blocks arrive, for this reason: requests for files that are not whole fail, now and later. */
  stopWaiting(reason: unknown): void {
    this.#stopped ??= { reason }
    this.settle()
  }

  /** Resolves or rejects the requests that can be settled now. */
  settle(): void {
    if (this.#requests.size === 0) return
    this.#known()
    this.#settleListed()
  }

  /** The same by the last listing, without beginning another one. */
  #settleListed(): void {
    const { store, walk } = this.#download
    const isListed = this.#isCurrent(this.#listed)
    const cids = this.#cids()
    for (const awaited of this.#requests) {
      const { path, type, resolve, reject } = awaited
      const cid = cids?.get(path)
      if (this.#end !== null) reject(this.#end)
      else if (cid !== undefined && walk.isWhole(cid)) {
        try {
          resolve(readFile(store, cid, type))
        } catch (error) {
          reject(error)
        }
      } else if (walk.isComplete && isListed) reject(new ContentError({ kind: 'no-such-file', path }))
      else if (this.#stopped !== null && isListed) reject(this.#stopped.reason)
      else continue
      this.#requests.delete(awaited)
    }
  }

  /** The files by path. A file without a size may turn out to be a folder. */
  #cids(): ReadonlyMap<string, Cid> | null {
    const listing = this.#listed.marked?.known
    if (listing === undefined) return null
    if (this.#byPath?.listing !== listing) {
      const files = listing.files.filter(({ size }) => size !== null)
      this.#byPath = { listing, cids: new Map(files.map(({ path, cid }) => [path, cid])) }
    }
    return this.#byPath.cids
  }

  /** The last listing. Begins another one if more of the page is here. */
  #known(): MarkedListing | null {
    if (this.#work === null && this.#end === null && !this.#isCurrent(this.#listed)) {
      const { nodesDone, isComplete, progress } = this.#download.walk
      if (progress.blocksDone === 0) this.#listed = { nodesDone, isComplete, marked: null }
      else this.#goOn({ nodesDone, isComplete, steps: this.#list() }, false)
    }
    return this.#listed.marked
  }

  *#list(): PausingWork<MarkedListing | null> {
    const known = yield* this.#download.list()
    return known === null ? null : yield* markedListing(known, this.#download.walk)
  }

  /** Does the next part of the listing, and the others in later tasks. */
  #goOn(work: ListingWork, isLater: boolean): void {
    this.#work = work
    try {
      const step = work.steps.next()
      if (!step.done) {
        void nextTask().then(() => {
          if (this.#end === null) this.#goOn(work, true)
        })
        return
      }
      this.#listed = { nodesDone: work.nodesDone, isComplete: work.isComplete, marked: step.value }
    } catch (error) {
      if (!(error instanceof ContentError)) throw error
      this.#deps.onFailure(error)
    }
    this.#work = null
    if (!isLater) return
    this.#settleListed()
    this.#deps.onListed()
  }

  #isCurrent(part: DownloadedPart): boolean {
    const { nodesDone, isComplete } = this.#download.walk
    return part.nodesDone === nodesDone && part.isComplete === isComplete
  }
}

function* markedListing(known: FileListing, walk: DagWalk): PausingWork<MarkedListing> {
  const { blocksDone } = walk.progress
  const { links, hasNames, isFinal } = known
  const files: Entry[] = []
  yield* forEachItem(known.files, ({ cid, ...file }) => files.push({ ...file, complete: walk.isWhole(cid) }))
  return { known, blocksDone, listing: { files, links, hasNames, isFinal } }
}
