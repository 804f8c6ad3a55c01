import { ContentError, listFiles, readFile, type FileEntry } from '../content/index.ts'
import type { Entry } from './api.ts'
import type { Gathering } from './gathering.ts'

interface Awaited {
  readonly path: string
  readonly type: string
  readonly resolve: (file: Blob) => void
  readonly reject: (error: unknown) => void
}

/** The files of a page, and those who wait for one. */
export class PromisedFiles {
  readonly #gathering: Gathering
  readonly #fail: (error: ContentError) => void
  readonly #awaited = new Set<Awaited>()
  /** As of when so many blocks had arrived that may lead to others, and whether all had. */
  #listed: { nodesDone: number; isComplete: boolean; files: FileEntry[] | null } = { nodesDone: -1, isComplete: false, files: null }
  #end: unknown = null

  /** `fail` hears that the page makes no sense. */
  constructor(gathering: Gathering, fail: (error: ContentError) => void) {
    this.#gathering = gathering
    this.#fail = fail
  }

  /** The files known so far, in the order of the directory; `null` until the root has arrived. */
  entries(): readonly Entry[] | null {
    const { walk } = this.#gathering
    return this.#files()?.map(({ path, size, cid }) => ({ path, size, complete: walk.isWhole(cid) })) ?? null
  }

  promise(path: string, options: { signal?: AbortSignal; type?: string }): Promise<Blob> {
    const { signal, type = '' } = options
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const awaited: Awaited = { path, type, resolve, reject }
      this.#awaited.add(awaited)
      signal?.addEventListener('abort', () => {
        if (this.#awaited.delete(awaited)) reject(signal.reason)
      })
      this.giveOut()
    })
  }

  /** There will be no more files, for this reason. */
  end(reason: unknown): void {
    this.#end ??= reason
    this.giveOut()
  }

  /** Settles every promised file that can be settled now. */
  giveOut(): void {
    if (this.#awaited.size === 0) return
    const { store, walk } = this.#gathering
    const files = this.#files()
    for (const awaited of this.#awaited) {
      const { path, type, resolve, reject } = awaited
      const file = files?.find((each) => each.path === path)
      if (this.#end !== null) reject(this.#end)
      else if (file !== undefined && walk.isWhole(file.cid)) {
        try {
          resolve(readFile(store, file.cid, type))
        } catch (error) {
          reject(error)
        }
      } else if (walk.isComplete) reject(new ContentError({ kind: 'no-such-file', path }))
      else continue
      this.#awaited.delete(awaited)
    }
  }

  #files(): FileEntry[] | null {
    const { store, walk } = this.#gathering
    const { nodesDone, isComplete } = walk
    const isListed = nodesDone === this.#listed.nodesDone && isComplete === this.#listed.isComplete
    if (!isListed && this.#end === null) {
      try {
        const isEmpty = walk.progress.blocksDone === 0
        this.#listed = { nodesDone, isComplete, files: isEmpty ? null : listFiles(store, walk.root) }
      } catch (error) {
        if (!(error instanceof ContentError)) throw error
        this.#fail(error)
      }
    }
    return this.#listed.files
  }
}
