import { ContentError, findFile, malformed, type Bytes, type Cid, type CidKey } from '../content/index.ts'
import { swarm } from '../words/swarm.ts'
import type { PageFile, ReadOptions } from './api.ts'
import { FileTree, type HeldBlocks } from './file-tree.ts'

/** Blocks that may be urgent at once, of all readers together. */
export const URGENT_MAX = 64
/** What a reader has fetched before it gets there: so many bytes, and at least and at most so many blocks. */
const AHEAD_BYTES = 4 << 20
const AHEAD_BLOCKS_MIN = 4
const AHEAD_BLOCKS_MAX = 16
/** Files that are open or read at once; one more is refused. */
const READERS_MAX = 64

/** What readers need of the page they read. */
export interface ReadPage {
  readonly root: Cid
  readonly blocks: HeldBlocks
  /** Asks for these blocks before all others, in this order; it replaces what was urgent before. */
  urge(cids: readonly Cid[]): void
}

/** Somebody at a place of a file, who needs what is there and what comes next. */
interface Place {
  /** `null` while it is not known where the file is. */
  tree: FileTree | null
  at: number
  to: number
  /** Blocks that must come before the tree is known. */
  leading: readonly Cid[]
  /** Blocks it waits for. */
  readonly awaited: Set<CidKey>
  readonly fail: (reason: unknown) => void
}

/** Gives up a place. */
type Leave = (() => void) & { readonly place: Place }

/**
 * Reads files of which not all blocks are here, by any number of readers up to `READERS_MAX`. What they stand before is
 * urgent, the latest reader first; elsewhere the page is fetched as ever.
 */
export class Readers {
  readonly #page: ReadPage
  /** The latest last. */
  readonly #places = new Set<Place>()
  /** Of the places, those for whom blocks are to be hurried. */
  readonly #urgent = new Set<Place>()
  /** Who goes on when a block comes. */
  readonly #waiting = new Map<CidKey, Map<Place, () => void>>()
  #urged = new Map<CidKey, Cid>()
  #end: { reason: unknown } | null = null

  constructor(page: ReadPage) {
    this.#page = page
  }

  /** Resolves when it is known where the file is and how long, which is urgent until then. */
  open(path: string, { signal }: { signal?: AbortSignal } = {}): Promise<PageFile> {
    return new Promise((resolve, reject) => {
      const leave = this.#enter({ urgent: true, signal, fail: reject })
      if (leave === null) return
      const { place } = leave
      let isOpen = false
      const look = (): void => {
        if (isOpen || !this.#places.has(place)) return
        try {
          const top = this.#find(path)
          if ('leading' in top) {
            place.leading = top.leading
            for (const cid of top.leading) this.#wait(place, cid, look)
          } else {
            isOpen = true
            place.tree = top.tree
            place.to = top.tree.size
            // Whoever opens it reads its beginning next.
            resolve(this.#fileOf(top.tree, () => leave()))
          }
          this.#urge()
        } catch (error) {
          leave()
          reject(error)
        }
      }
      look()
    })
  }

  /** A block has come; called before anything else is asked for on its account. */
  arrived(cid: Cid): void {
    const waiting = this.#waiting.get(cid.key)
    this.#waiting.delete(cid.key)
    for (const [place, wake] of waiting ?? []) {
      place.awaited.delete(cid.key)
      wake()
    }
    if (this.#urged.has(cid.key)) this.#urge()
  }

  /** More blocks are here than was told one by one. */
  lookAgain(): void {
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const wakes of waiting) for (const wake of wakes.values()) wake()
    this.#urge()
  }

  /** The page has failed or was closed. */
  end(reason: unknown): void {
    if (this.#end !== null) return
    this.#end = { reason }
    for (const { fail } of [...this.#places]) fail(reason)
    this.#places.clear()
    this.#urgent.clear()
    this.#waiting.clear()
  }

  #find(path: string): { tree: FileTree } | { leading: readonly Cid[] } {
    const found = findFile(this.#page.blocks, this.#page.root, path)
    switch (found.kind) {
      case 'nothing':
        throw new ContentError({ kind: 'no-such-file', path })
      case 'absent':
        return { leading: found.cids }
      case 'file': {
        const tree = FileTree.over(this.#page.blocks, found.cid)
        return tree === null ? { leading: [found.cid] } : { tree }
      }
    }
  }

  #fileOf(tree: FileTree, opened: () => void): PageFile {
    return {
      size: tree.size,
      read: (from, to, options = {}) => {
        const stream = this.#read(tree, from, to, options)
        opened()
        return stream
      },
      present: (parts) => presentParts(tree, parts),
      close: opened,
    }
  }

  #read(tree: FileTree, from: number, to: number, { signal, urgent = true }: ReadOptions): ReadableStream<Bytes> {
    let stop: (reason: unknown) => void = () => {}
    const stopped = new Promise<never>((_, reject) => (stop = reject))
    stopped.catch(() => {})
    let leave: Leave | null = null
    let place: Place | undefined
    return new ReadableStream<Bytes>(
      {
        start: (controller) => {
          const fail = (reason: unknown) => {
            controller.error(reason)
            stop(reason)
          }
          leave = this.#enter({ urgent, signal, fail })
          place = leave?.place
          if (place === undefined) return
          place.tree = tree
          place.at = Math.max(0, Math.min(from, tree.size))
          place.to = Math.max(place.at, Math.min(to, tree.size))
          this.#urge()
        },
        pull: async (controller) => {
          if (place === undefined || !this.#places.has(place)) return
          try {
            if (place.at < place.to) {
              const bytes = await Promise.race([this.#next(tree, place), stopped])
              place.at += bytes.length
              controller.enqueue(bytes)
            }
            if (place.at >= place.to) {
              leave?.()
              controller.close()
            } else this.#urge()
          } catch (error) {
            leave?.()
            controller.error(error)
          }
        },
        cancel: (reason) => {
          leave?.()
          stop(reason)
        },
      },
      { highWaterMark: 0 },
    )
  }

  async #next(tree: FileTree, place: Place): Promise<Bytes> {
    for (;;) {
      const part = tree.at(place.at)
      if (part.isHere) {
        const bytes = (await tree.bytesOf(part)).subarray(place.at - part.from, place.to - part.from)
        if (bytes.length === 0) throw malformed('blockSize')
        return bytes
      }
      // Given up with its place: `pull` does not wait longer than that.
      await new Promise<void>((resolve) => this.#wait(place, part.cid, resolve))
    }
  }

  /** Takes a place among the readers; `null` when the reader has been told that there is none. */
  #enter({ urgent, signal, fail }: { urgent: boolean; signal: AbortSignal | undefined; fail: (reason: unknown) => void }): Leave | null {
    const refusal =
      this.#end?.reason ??
      (signal?.aborted ? signal.reason : null) ??
      (this.#places.size >= READERS_MAX ? new Error(swarm('readers')) : null)
    if (refusal !== null) {
      fail(refusal)
      return null
    }
    const place: Place = { tree: null, at: 0, to: 0, leading: [], awaited: new Set(), fail }
    const abort = () => {
      leave()
      fail(signal?.reason)
    }
    const leave = () => {
      signal?.removeEventListener('abort', abort)
      this.#places.delete(place)
      for (const key of place.awaited) this.#forget(place, key)
      place.awaited.clear()
      if (this.#urgent.delete(place)) this.#urge()
    }
    this.#places.add(place)
    if (urgent) this.#urgent.add(place)
    signal?.addEventListener('abort', abort, { once: true })
    return Object.assign(leave, { place })
  }

  #wait(place: Place, cid: Cid, wake: () => void): void {
    const waiting = this.#waiting.get(cid.key) ?? new Map<Place, () => void>()
    this.#waiting.set(cid.key, waiting.set(place, wake))
    place.awaited.add(cid.key)
  }

  #forget(place: Place, key: CidKey): void {
    const waiting = this.#waiting.get(key)
    if (waiting?.delete(place) && waiting.size === 0) this.#waiting.delete(key)
  }

  /** Says what is urgent, if that has changed: in turns what each reader needs next. */
  #urge(): void {
    if (this.#end !== null) return
    const wishes = [...this.#urgent].reverse().map(wishesOf)
    const urgent = new Map<CidKey, Cid>()
    const longest = wishes.reduce((most, each) => Math.max(most, each.length), 0)
    for (let turn = 0; turn < longest && urgent.size < URGENT_MAX; turn++) {
      for (const wish of wishes) {
        const cid = wish[turn]
        if (cid !== undefined && urgent.size < URGENT_MAX) urgent.set(cid.key, cid)
      }
    }
    const isSame = [...urgent.keys()].join() === [...this.#urged.keys()].join()
    this.#urged = urgent
    if (!isSame) this.#page.urge([...urgent.values()])
  }
}

function wishesOf({ tree, at, to, leading }: Place): readonly Cid[] {
  if (tree === null) return leading
  try {
    const near = tree.absent(at, Math.min(to, at + AHEAD_BYTES), AHEAD_BLOCKS_MAX)
    const few = near.length >= AHEAD_BLOCKS_MIN ? near : tree.absent(at, to, AHEAD_BLOCKS_MIN)
    return few.length > near.length ? few : near
  } catch {
    // Its reader hears of it when it gets there.
    return []
  }
}

function presentParts(tree: FileTree, parts: number): boolean[] {
  try {
    return Array.from({ length: parts }, (_, i) => tree.size > 0 && tree.at(Math.floor((i * tree.size) / parts)).isHere)
  } catch {
    return Array.from({ length: parts }, () => false)
  }
}
