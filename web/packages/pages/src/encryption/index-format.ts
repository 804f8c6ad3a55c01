import {
  compareBytes,
  concat,
  forEachItem,
  isEntryName,
  ItemCount,
  sorted,
  textOf,
  uint32,
  uint64,
  utf8,
  type Bytes,
  type PausingWork,
} from '../content/index.ts'
import { PrivateError } from './error.ts'
import { CONTENT_BYTES_MAX } from './layout.ts'
import type { IndexProblem } from './problem.ts'

const INDEX_BYTES_MAX = 16 << 20
const ENTRIES_MAX = 65_536
const PATH_BYTES_MAX = 4096
const NAMES_MAX = 32
const TARGET_BYTES_MAX = 4096
const NAME_BYTES_MAX = 255
/** The length field before the index. */
const LENGTH_BYTES = 4

const KINDS = ['file', 'directory', 'symlink'] as const

/** An entry of a private page. */
export interface PrivateEntry {
  /** Names joined by slashes. */
  readonly path: string
  readonly kind: (typeof KINDS)[number]
  readonly bytes: number
}

/**
 * The index of a private page: names and sizes. The bytes of the entries follow it, in the same order and without gaps.
 */
export interface Index {
  /** The name that its author gave it. May be empty. */
  readonly name: string
  readonly isDirectory: boolean
  /** Sorted by path, name by name. A single file has an empty path. */
  readonly entries: readonly PrivateEntry[]
}

/** Encodes the start of the content: the length of the index, and the index. */
export function* encodeIndex(index: Index): PausingWork<Bytes> {
  yield* check(index)
  const parts: Bytes[] = [Uint8Array.of(index.isDirectory ? 1 : 0), text(index.name), uint32(index.entries.length)]
  yield* forEachItem(index.entries, ({ path, kind, bytes }) => {
    parts.push(Uint8Array.of(KINDS.indexOf(kind)), text(path), uint64(bytes))
  })
  const encoded = concat(parts)
  if (encoded.length > INDEX_BYTES_MAX) throw refused('too-long')
  return concat([uint32(encoded.length), encoded])
}

/** The bytes of the length field and the index, read from the start of the content. `null` while that is too short. */
export function indexBytes(content: Uint8Array): number | null {
  if (content.length < LENGTH_BYTES) return null
  const length = new Reader(content).uint(4)
  if (length > INDEX_BYTES_MAX) throw refused('too-long')
  return LENGTH_BYTES + length
}

/** Decodes what `encodeIndex` encoded. The names are not trusted: a path never leads out of its directory. */
export function* decodeIndex(content: Uint8Array): PausingWork<Index> {
  const bytes = indexBytes(content)
  if (bytes === null || bytes > content.length) throw refused('cut')
  if (bytes < content.length) throw refused('trailing')
  const reader = new Reader(content.subarray(LENGTH_BYTES))
  const kind = reader.uint(1)
  if (kind > 1) throw refused('kind')
  const name = reader.text()
  const count = reader.uint(4)
  if (count > ENTRIES_MAX) throw refused('too-many-entries')
  const entries: PrivateEntry[] = []
  const read = new ItemCount()
  for (let i = 0; i < count; i++) {
    if (read.isPauseDue()) yield
    const kind = KINDS[reader.uint(1)]
    if (kind === undefined) throw refused('kind')
    entries.push({ path: reader.text(), kind, bytes: reader.size() })
  }
  if (!reader.isAtEnd) throw refused('trailing')
  const index = { name, isDirectory: kind === 1, entries }
  yield* check(index)
  return index
}

export function* sortedEntries<Entry extends { readonly path: string }>(entries: readonly Entry[]): PausingWork<Entry[]> {
  const count = new ItemCount()
  const keyed: { entry: Entry; key: Bytes }[] = []
  yield* forEachItem(entries, (entry) => keyed.push({ entry, key: sortedBy(entry.path) }), count)
  const inOrder = yield* sorted(keyed, (a, b) => compareBytes(a.key, b.key), count)
  return inOrder.map(({ entry }) => entry)
}

function* check({ name, isDirectory, entries }: Index): PausingWork<void> {
  if (entries.length > ENTRIES_MAX) throw refused('too-many-entries')
  if (name !== '' && (!isName(name) || utf8(name).length > NAME_BYTES_MAX)) throw refused('path')
  if (isDirectory) yield* checkPaths(entries)
  else if (entries.length !== 1 || entries[0]?.path !== '' || entries[0].kind !== 'file') throw refused('not-one-file')
  let sum = 0
  for (const { kind, bytes } of entries) {
    const isPossible = kind === 'file' || (kind === 'directory' ? bytes === 0 : bytes >= 1 && bytes <= TARGET_BYTES_MAX)
    sum += bytes
    if (!isPossible || sum > CONTENT_BYTES_MAX) throw refused('size')
  }
}

function* checkPaths(entries: readonly PrivateEntry[]): PausingWork<void> {
  const count = new ItemCount()
  const checkPath = ({ path }: PrivateEntry) => {
    const names = path.split('/')
    if (!names.every(isName) || names.length > NAMES_MAX || utf8(path).length > PATH_BYTES_MAX) throw refused('path')
  }
  yield* forEachItem(entries, checkPath, count)
  let before: { path: string; key: Bytes } | null = null
  const checkOrder = ({ path }: PrivateEntry) => {
    const key = sortedBy(path)
    // A directory with entries needs no entry of its own.
    if (before !== null && (compareBytes(before.key, key) >= 0 || path.startsWith(`${before.path}/`))) throw refused('order')
    before = { path, key }
  }
  yield* forEachItem(entries, checkOrder, count)
}

/** Compares name by name, so that the entries of a directory directly follow it. No name contains a NUL. */
function sortedBy(path: string): Bytes {
  return utf8(path.replaceAll('/', '\0'))
}

function isName(name: string): boolean {
  return isEntryName(name) && name.isWellFormed()
}

function text(words: string): Bytes {
  const bytes = utf8(words)
  return concat([Uint8Array.of(bytes.length >> 8, bytes.length & 255), bytes])
}

function refused(index: IndexProblem): PrivateError {
  return new PrivateError({ kind: 'index', index })
}

class Reader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  uint(bytes: 1 | 2 | 4 | 8): number {
    return this.#take(bytes).reduce((number, byte) => number * 256 + byte, 0)
  }

  size(): number {
    const bytes = this.uint(8)
    // A larger number would lose precision.
    if (!Number.isSafeInteger(bytes)) throw refused('size')
    return bytes
  }

  text(): string {
    const words = textOf(this.#take(this.uint(2)))
    if (words === null) throw refused('utf8')
    return words
  }

  #take(length: number): Uint8Array {
    const to = this.#at + length
    if (to > this.#bytes.length) throw refused('cut')
    const taken = this.#bytes.subarray(this.#at, to)
    this.#at = to
    return taken
  }
}
