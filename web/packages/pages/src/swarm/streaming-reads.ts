import { ContentError, malformed, type Bytes, type Cid, type CidKey, type FindResult } from '../content/index.ts'
import { swarm } from '../messages/swarm.ts'
import type { PageFile, ReadOptions } from './api.ts'
import { FileTree, type LocalBlocks } from './file-tree.ts'

/** Blocks that can be urgent at the same time, for all reads together. */
export const URGENT_BLOCKS_MAX = 64
/** The amount that is requested ahead of a read: bytes, and blocks at least and at most. */
const AHEAD_BYTES = 4 << 20
const AHEAD_BLOCKS_MIN = 4
const AHEAD_BLOCKS_MAX = 16
/** Open files and reads at the same time. When the limit is reached, further ones fail. */
const READS_MAX = 64

/** The page that is read. */
export interface StreamedPage {
  readonly blocks: LocalBlocks
  /** Follows a path as far as the blocks are here. */
  find(path: string): FindResult
  /** Sets the blocks to request first, in this order. Replaces the earlier ones. */
  setUrgent(cids: readonly Cid[]): void
}

/** A read: a position in a file, where bytes are needed. */
interface Read {
  /** `null` while the position of the file is not known. */
  tree: FileTree | null
  at: number
  to: number
  /** Blocks needed before the tree is known. */
  needed: readonly Cid[]
  /** Blocks that the read waits for. */
  readonly awaited: Set<CidKey>
  readonly leave: () => void
  readonly fail: (reason: unknown) => void
}

/**
 * Reads files of which blocks are missing. Blocks at the position of each read are urgent, those of the latest read
 * first. There are at most `READS_MAX` reads.
 */
export class StreamingReads {
  readonly #page: StreamedPage
  /** In the order in which they began. */
  readonly #reads = new Set<Read>()
  /** The reads whose blocks are urgent. */
  readonly #urgent = new Set<Read>()
  /** The reads to continue when a block arrives. */
  readonly #waiting = new Map<CidKey, Map<Read, () => void>>()
  #lastUrgent = new Map<CidKey, Cid>()
  #end: { reason: unknown } | null = null
  /** The reason why no more blocks arrive. Blocks that are here can still be read. */
  #stopped: { reason: unknown } | null = null

  constructor(page: StreamedPage) {
    this.#page = page
  }

  /** Resolves once the root block of the file is here. It is urgent until then. */
  open(path: string, { signal }: { signal?: AbortSignal } = {}): Promise<PageFile> {
    return new Promise((resolve, reject) => {
      const place = this.#addRead({ urgent: true, signal, fail: reject })
      if (place === null) return
      let isOpen = false
      const look = (): void => {
        if (isOpen || !this.#reads.has(place)) return
        try {
          const top = this.#find(path)
          if ('leading' in top) {
            place.needed = top.leading
            for (const cid of top.leading) this.#wait(place, cid, look)
          } else {
            isOpen = true
            place.tree = top.tree
            place.to = top.tree.size
            // The beginning of the file is most likely read next.
            resolve(this.#fileOf(top.tree, place.leave))
          }
          this.#updateUrgent()
        } catch (error) {
          place.fail(error)
        }
      }
      look()
    })
  }

  /** A block arrived. Called before other blocks are requested because of it. */
  handleBlock(cid: Cid): void {
    const waiting = this.#waiting.get(cid.key)
    this.#waiting.delete(cid.key)
    for (const [place, wake] of waiting ?? []) {
      place.awaited.delete(cid.key)
      wake()
    }
    if (this.#lastUrgent.has(cid.key)) this.#updateUrgent()
  }

  /** More blocks are here than `handleBlock` was called for. */
  recheckAll(): void {
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const wakes of waiting) for (const wake of wakes.values()) wake()
    this.#updateUrgent()
  }

  /** No more blocks arrive, for this reason: reads that wait for one fail, now and later. */
  stopWaiting(reason: unknown): void {
    this.#stopped ??= { reason }
    const waiting = new Set([...this.#waiting.values()].flatMap((wakes) => [...wakes.keys()]))
    this.#waiting.clear()
    for (const { fail } of waiting) fail(reason)
  }

  /** The page has failed or was closed. */
  end(reason: unknown): void {
    if (this.#end !== null) return
    this.#end = { reason }
    for (const { fail } of [...this.#reads]) fail(reason)
    this.#reads.clear()
    this.#urgent.clear()
    this.#waiting.clear()
  }

  #find(path: string): { tree: FileTree } | { leading: readonly Cid[] } {
    const found = this.#page.find(path)
    switch (found.kind) {
      case 'nothing':
        throw new ContentError({ kind: 'no-such-file', path })
      case 'absent':
        return { leading: found.cids }
      case 'file': {
        const tree = FileTree.open(this.#page.blocks, found.cid)
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
      present: (parts) => availableParts(tree, parts),
      close: opened,
    }
  }

  #read(tree: FileTree, from: number, to: number, { signal, urgent = true }: ReadOptions): ReadableStream<Bytes> {
    let stop: (reason: unknown) => void = () => {}
    const stopped = new Promise<never>((_, reject) => (stop = reject))
    stopped.catch(() => {})
    let place: Read | null = null
    return new ReadableStream<Bytes>(
      {
        start: (controller) => {
          const fail = (reason: unknown) => {
            controller.error(reason)
            stop(reason)
          }
          place = this.#addRead({ urgent, signal, fail })
          if (place === null) return
          place.tree = tree
          place.at = Math.max(0, Math.min(from, tree.size))
          place.to = Math.max(place.at, Math.min(to, tree.size))
          this.#updateUrgent()
        },
        pull: async (controller) => {
          if (place === null || !this.#reads.has(place)) return
          try {
            if (place.at < place.to) {
              const bytes = await Promise.race([this.#next(tree, place), stopped])
              place.at += bytes.length
              controller.enqueue(bytes)
            }
            if (place.at >= place.to) {
              place.leave()
              controller.close()
            } else this.#updateUrgent()
          } catch (error) {
            place.fail(error)
          }
        },
        cancel: (reason) => {
          place?.leave()
          stop(reason)
        },
      },
      { highWaterMark: 0 },
    )
  }

  async #next(tree: FileTree, place: Read): Promise<Bytes> {
    for (;;) {
      const part = tree.partAt(place.at)
      if (part.isHere) {
        const bytes = (await tree.bytesOf(part)).subarray(place.at - part.from, place.to - part.from)
        if (bytes.length === 0) throw malformed('blockSize')
        return bytes
      }
      // Ends with its read: `pull` stops waiting then.
      await new Promise<void>((resolve) => this.#wait(place, part.cid, resolve))
    }
  }

  /** Adds a read. Returns `null` if it was rejected, after calling `fail`. */
  #addRead({ urgent, signal, fail }: { urgent: boolean; signal: AbortSignal | undefined; fail: (reason: unknown) => void }): Read | null {
    const refusal =
      this.#end?.reason ?? (signal?.aborted ? signal.reason : null) ?? (this.#reads.size >= READS_MAX ? new Error(swarm('readers')) : null)
    if (refusal !== null) {
      fail(refusal)
      return null
    }
    const abort = () => place.fail(signal?.reason)
    const place: Read = {
      tree: null,
      at: 0,
      to: 0,
      needed: [],
      awaited: new Set(),
      leave: () => {
        signal?.removeEventListener('abort', abort)
        this.#reads.delete(place)
        for (const key of place.awaited) {
          const waiting = this.#waiting.get(key)
          if (waiting?.delete(place) && waiting.size === 0) this.#waiting.delete(key)
        }
        place.awaited.clear()
        if (this.#urgent.delete(place)) this.#updateUrgent()
      },
      fail: (reason) => {
        place.leave()
        fail(reason)
      },
    }
    this.#reads.add(place)
    if (urgent) this.#urgent.add(place)
    signal?.addEventListener('abort', abort, { once: true })
    return place
  }

  #wait(place: Read, cid: Cid, wake: () => void): void {
    if (this.#stopped !== null) {
      place.fail(this.#stopped.reason)
      return
    }
    const waiting = this.#waiting.get(cid.key) ?? new Map<Read, () => void>()
    this.#waiting.set(cid.key, waiting.set(place, wake))
    place.awaited.add(cid.key)
  }

  /** Sets the urgent blocks, if they changed: in turns what each read needs next. */
  #updateUrgent(): void {
    if (this.#end !== null) return
    const wishes = [...this.#urgent].reverse().map(nextBlocksOf)
    const urgent = new Map<CidKey, Cid>()
    const longest = wishes.reduce((most, each) => Math.max(most, each.length), 0)
    for (let turn = 0; turn < longest && urgent.size < URGENT_BLOCKS_MAX; turn++) {
      for (const wish of wishes) {
        const cid = wish[turn]
        if (cid !== undefined && urgent.size < URGENT_BLOCKS_MAX) urgent.set(cid.key, cid)
      }
    }
    const isSame = [...urgent.keys()].join() === [...this.#lastUrgent.keys()].join()
    this.#lastUrgent = urgent
    if (!isSame) this.#page.setUrgent([...urgent.values()])
  }
}

function nextBlocksOf({ tree, at, to, needed }: Read): readonly Cid[] {
  if (tree === null) return needed
  try {
    const near = tree.absent(at, Math.min(to, at + AHEAD_BYTES), AHEAD_BLOCKS_MAX)
    const few = near.length >= AHEAD_BLOCKS_MIN ? near : tree.absent(at, to, AHEAD_BLOCKS_MIN)
    return few.length > near.length ? few : near
  } catch {
    // The read fails when it gets there.
    return []
  }
}

function availableParts(tree: FileTree, parts: number): boolean[] {
  try {
    return Array.from({ length: parts }, (_, i) => tree.size > 0 && tree.partAt(Math.floor((i * tree.size) / parts)).isHere)
  } catch {
    return Array.from({ length: parts }, () => false)
  }
}
