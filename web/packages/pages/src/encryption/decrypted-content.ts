import { concat, ContentError, inTasks, type Bytes } from '../content/index.ts'
import type { PageFile, ReadOptions } from '../swarm/index.ts'
import { PrivateError } from './error.ts'
import { HEADER_BYTES, padded } from './layout.ts'
import { decodeIndex, indexBytes, type Index } from './index-format.ts'
import { streamOf, type ReadableContent } from './readable-content.ts'
import { Records } from './records.ts'

/** The ciphertext of a page, read by range while it loads. */
export type Ciphertext = Pick<PageFile, 'size' | 'read' | 'present'>

interface Place {
  readonly from: number
  readonly bytes: number
}

/** The content of a private page, read with its key. Only the records of a file that is read are fetched first. */
export class DecryptedContent implements ReadableContent {
  readonly index: Index
  readonly isReceived = true
  readonly #sealed: Ciphertext
  readonly #records: Records
  readonly #places: ReadonlyMap<string, Place>

  private constructor(index: Index, from: number, sealed: Ciphertext, records: Records) {
    this.index = index
    this.#sealed = sealed
    this.#records = records
    const places = new Map<string, Place>()
    let at = from
    for (const { path, kind, bytes } of index.entries) {
      // Symbolic links are left out, as everywhere in the browser.
      if (kind === 'file') places.set(path, { from: at, bytes })
      at += bytes
    }
    this.#places = places
  }

  /**
   * Reads the header and the index. Rejects with a `PrivateError` if the key does not match or the page was changed.
   */
  static async open(sealed: Ciphertext, key: Bytes, options: ReadOptions = {}): Promise<DecryptedContent> {
    const header = await readWhole(sealed.read(0, Math.min(HEADER_BYTES, sealed.size), options))
    const records = await Records.opening(key, header, sealed.size)
    const parts: Bytes[] = []
    let length = 0
    let needed: number | null = null
    for await (const { content } of openedRecords(sealed, records, 0, records.layout.records - 1, options)) {
      parts.push(content)
      length += content.length
      needed ??= indexBytes(content)
      if (needed !== null && length >= needed) break
    }
    if (needed === null || length < needed) throw new PrivateError({ kind: 'index', index: 'cut' })
    // Decoded once it is complete. An index may span many records.
    const index = await inTasks(decodeIndex(concat(parts).subarray(0, needed)), options.signal)
    const contentBytes = needed + index.entries.reduce((sum, { bytes }) => sum + bytes, 0)
    // The padding follows from the rest, so that nothing can be hidden in it.
    if (padded(contentBytes) !== records.layout.contentBytes) {
      throw new PrivateError({ kind: 'length', sealedBytes: sealed.size })
    }
    return new DecryptedContent(index, needed, sealed, records)
  }

  async file(path: string, options: { signal?: AbortSignal; type?: string } = {}): Promise<Blob> {
    const parts: Blob[] = []
    const { signal, type = '' } = options
    const { bytes } = this.#placeOf(path)
    // When the whole file is read, no part of it is more urgent than the rest of the page.
    for await (const piece of this.#pieces(path, 0, bytes, { urgent: false, ...(signal ? { signal } : {}) })) {
      parts.push(new Blob([piece]))
    }
    return new Blob(parts, { type })
  }

  open(path: string): PageFile {
    const { bytes: size } = this.#placeOf(path)
    return {
      size,
      read: (from, to, options = {}) => streamOf((signal) => this.#pieces(path, from, to, { ...options, signal }), options.signal),
      present: (parts) => this.#present(path, parts),
      // Opening a file fetches nothing.
      close: () => {},
    }
  }

  #placeOf(path: string): Place {
    const place = this.#places.get(path)
    if (place === undefined) throw new ContentError({ kind: 'no-such-file', path })
    return place
  }

  /** The bytes of a file from `from` to `to`, decrypted record by record. */
  async *#pieces(path: string, from: number, to: number, options: ReadOptions): AsyncGenerator<Bytes> {
    const place = this.#placeOf(path)
    const { layout } = this.#records
    const start = place.from + Math.max(0, from)
    const end = place.from + Math.min(to, place.bytes)
    if (start >= end) return
    const last = layout.recordAt(end - 1)
    for await (const { record, content } of openedRecords(this.#sealed, this.#records, layout.recordAt(start), last, options)) {
      const at = layout.contentOf(record).from
      yield content.subarray(Math.max(0, start - at), end - at)
    }
  }

  #present(path: string, parts: number): boolean[] {
    const { from, bytes } = this.#placeOf(path)
    const { layout } = this.#records
    // Fine enough that a part begins in every record.
    const fine = Math.min(FINE_PARTS_MAX, 4 * layout.records)
    const here = this.#sealed.present(fine)
    return Array.from({ length: parts }, (_, part) => {
      const record = layout.recordAt(from + Math.floor((bytes * part) / parts))
      const at = Math.ceil(((record * layout.recordBytes) / layout.sealedBytes) * fine)
      return here[Math.min(at, fine - 1)] ?? false
    })
  }
}

const FINE_PARTS_MAX = 1 << 16

/** Reads records from `first` to `last`, both included, with one read. Each is authenticated before it is yielded. */
async function* openedRecords(
  sealed: Ciphertext,
  records: Records,
  first: number,
  last: number,
  options: ReadOptions,
): AsyncGenerator<{ record: number; content: Bytes }> {
  const { layout } = records
  const reader = sealed.read(layout.sealedOf(first).from, layout.sealedOf(last).to, options).getReader()
  try {
    let coming: Bytes = new Uint8Array()
    for (let record = first; record <= last; record++) {
      const { from, to } = layout.sealedOf(record)
      while (coming.length < to - from) {
        const { done, value } = await reader.read()
        if (done) throw new PrivateError({ kind: 'length', sealedBytes: sealed.size })
        coming = coming.length === 0 ? value : concat([coming, value])
      }
      const whole = coming.subarray(0, to - from)
      coming = coming.subarray(to - from)
      yield { record, content: await records.open(record, whole) }
    }
  } finally {
    // The caller may stop early.
    reader.cancel().catch(() => {})
  }
}

export async function readWhole(stream: ReadableStream<Bytes>): Promise<Bytes> {
  const parts: Bytes[] = []
  const reader = stream.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return concat(parts)
    parts.push(value)
  }
}
