import { ContentError, forEachItem, type Bytes, type PausingWork } from '../content/index.ts'
import type { PageFile } from '../swarm/index.ts'
import { swarm } from '../messages/swarm.ts'
import { Layout } from './layout.ts'
import { encodeIndex, sortedEntries, type Index, type PrivateEntry } from './index-format.ts'
import type { ReadableContent } from './readable-content.ts'

interface Part {
  readonly from: number
  readonly blob: Blob
}

/** The content of a page that is made in this tab. It is read from its files when needed, and never all in memory. */
export class PlaintextContent implements ReadableContent {
  readonly index: Index
  readonly isReceived = false
  readonly layout: Layout
  /** The index, followed by the files. */
  readonly #parts: readonly Part[]
  readonly #files: ReadonlyMap<string, Blob>

  private constructor(index: Index, parts: readonly Part[], files: ReadonlyMap<string, Blob>, bytes: number) {
    this.index = index
    this.#parts = parts
    this.#files = files
    this.layout = Layout.ofContent(bytes)
  }

  /** `emptyFolders`: the paths of directories without entries, in a page that is a directory. */
  static *of(
    name: string,
    isDirectory: boolean,
    files: readonly { path: string; blob: Blob }[],
    emptyFolders: readonly string[] = [],
  ): PausingWork<PlaintextContent> {
    const folders = emptyFolders.map((path) => ({ path, blob: null }))
    const inOrder = isDirectory ? yield* sortedEntries([...files, ...folders]) : files.map(({ blob }) => ({ path: '', blob }))
    const entries: PrivateEntry[] = []
    const describe = ({ path, blob }: { path: string; blob: Blob | null }) =>
      entries.push({ path, kind: blob === null ? 'directory' : 'file', bytes: blob?.size ?? 0 })
    yield* forEachItem(inOrder, describe)
    const index = { name, isDirectory, entries }
    const parts: Part[] = []
    const blobs = new Map<string, Blob>()
    let from = 0
    const add = (blob: Blob) => {
      parts.push({ from, blob })
      from += blob.size
    }
    add(new Blob([yield* encodeIndex(index)]))
    yield* forEachItem(inOrder, ({ path, blob }) => {
      if (blob === null) return
      add(blob)
      blobs.set(path, blob)
    })
    return new PlaintextContent(index, parts, blobs, from)
  }

  /** The content from `from` to `to`, including padding. Rejects if a file has changed or is gone. */
  async read(from: number, to: number): Promise<Bytes> {
    const slices: Blob[] = []
    const first = this.#parts.findLastIndex((each) => each.from <= from)
    for (const part of this.#parts.slice(first)) {
      if (part.from >= to) break
      const isWhole = from <= part.from && part.from + part.blob.size <= to
      // A slice of each of a thousand small files would stop the page for seconds.
      slices.push(isWhole ? part.blob : part.blob.slice(Math.max(0, from - part.from), to - part.from))
    }
    const expected = slices.reduce((sum, { size }) => sum + size, 0)
    const read = await new Blob(slices).arrayBuffer()
    if (read.byteLength !== expected) throw new Error(swarm('changedMeanwhile'))
    const content = new Uint8Array(to - from)
    content.set(new Uint8Array(read))
    return content
  }

  async file(path: string, options: { type?: string } = {}): Promise<Blob> {
    const blob = this.#blobOf(path)
    return blob.slice(0, blob.size, options.type ?? '')
  }

  open(path: string): PageFile {
    const blob = this.#blobOf(path)
    return {
      size: blob.size,
      read: (from, to) => blob.slice(Math.max(0, from), Math.max(0, to)).stream(),
      present: (parts) => Array.from({ length: parts }, () => true),
      close: () => {},
    }
  }

  #blobOf(path: string): Blob {
    const blob = this.#files.get(path)
    if (blob === undefined) throw new ContentError({ kind: 'no-such-file', path })
    return blob
  }
}
