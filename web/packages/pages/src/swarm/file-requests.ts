import { ContentError, readFile, type Cid, type FileListing } from '../content/index.ts'
import type { Listing } from './api.ts'
import type { Download } from './download.ts'

interface FileRequest {
  readonly path: string
  readonly type: string
  readonly resolve: (file: Blob) => void
  readonly reject: (error: unknown) => void
}

/** The files of a page, and the requests that wait for one of them. */
export class FileRequests {
  readonly #download: Download
  readonly #fail: (error: ContentError) => void
  readonly #requests = new Set<FileRequest>()
  /** The last listing, and how far the download was at that time. */
  #listed: { nodesDone: number; isComplete: boolean; listing: FileListing | null } = { nodesDone: -1, isComplete: false, listing: null }
  /** The files of the last listing by path, once one was requested. */
  #byPath: { listing: FileListing; cids: ReadonlyMap<string, Cid> } | null = null
  #end: unknown = null
  /** The reason why no more blocks arrive. Files whose blocks are all here are still given out. */
  #stopped: { reason: unknown } | null = null

  /** `fail` is called if the content is invalid. */
  constructor(download: Download, fail: (error: ContentError) => void) {
    this.#download = download
    this.#fail = fail
  }

  /** The files known so far. `null` until the root has arrived. */
  listing(): Listing | null {
    const { walk } = this.#download
    const known = this.#known()
    if (known === null) return null
    const files = known.files.map(({ cid, ...file }) => ({ ...file, complete: walk.isWhole(cid) }))
    return { files, links: known.links, hasNames: known.hasNames, isFinal: known.isFinal }
  }

  request(path: string, options: { signal?: AbortSignal; type?: string }): Promise<Blob> {
    const { signal, type = '' } = options
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
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
    const { store, walk } = this.#download
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
      } else if (walk.isComplete) reject(new ContentError({ kind: 'no-such-file', path }))
      else if (this.#stopped !== null) reject(this.#stopped.reason)
      else continue
      this.#requests.delete(awaited)
    }
  }

  #cids(): ReadonlyMap<string, Cid> | null {
    const listing = this.#known()
    if (listing === null) return null
    if (this.#byPath?.listing !== listing) {
      this.#byPath = { listing, cids: new Map(listing.files.map(({ path, cid }) => [path, cid])) }
    }
    return this.#byPath.cids
  }

  #known(): FileListing | null {
    const { walk } = this.#download
    const { nodesDone, isComplete } = walk
    const isListed = nodesDone === this.#listed.nodesDone && isComplete === this.#listed.isComplete
    if (!isListed && this.#end === null) {
      try {
        const isEmpty = walk.progress.blocksDone === 0
        this.#listed = { nodesDone, isComplete, listing: isEmpty ? null : this.#download.list() }
      } catch (error) {
        if (!(error instanceof ContentError)) throw error
        this.#fail(error)
      }
    }
    return this.#listed.listing
  }
}
