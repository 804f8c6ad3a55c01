import {
  ContentError, inlineBytes, RAW, readSlice, sizeOf, type Blocks, type Bytes, type Cid, type CidKey, type StoreNews,
} from '../content/index.ts'
import { sizeText } from '../words/index.ts'
import { storage } from '../words/storage.ts'
import type { NamedBytes } from './batch.ts'
import type { Disk } from './disk.ts'

/** A page of no more than this stays in memory: fetching it again is as quick as a disk. */
const DISK_FROM_BYTES = 4 << 20
/** What is written at once, and how long a block waits for others to be written with. */
const BATCH_BYTES = 8 << 20
const BATCH_MS = 500
/** Bytes that may wait for the disk; beyond, whoever brings more is asked to wait. */
const UNWRITTEN_BYTES_MAX = 32 << 20
/** What a page may have in memory where there is no disk, or none any more; then no more of it is taken. */
export const MEMORY_BYTES_MAX = 512 << 20

export interface DiskBlocksDeps {
  readonly bytesMax: number
  readonly open: () => Promise<Disk | null>
  /** Whether this tab may have blocks of the page on disk, from before it was reloaded. */
  readonly hasLeftovers: boolean
  /** Calls once, after that many milliseconds; the returned function takes it back. */
  readonly after: (milliseconds: number, callback: () => void) => () => void
  readonly memoryBytesMax?: number
}

/** Where the next blocks go. */
type Home =
  /** Nowhere yet: there are few. */
  | { kind: 'undecided' }
  | { kind: 'opening' }
  | { kind: 'disk'; disk: Disk }
  /** There is no disk, or no room on it. */
  | { kind: 'memory' }
  | { kind: 'cleared' }

/**
 * Blocks that come from elsewhere. Leaves go to disk in batches and are then slices of it; blocks that lead to others
 * stay in memory, and are on disk as well for the next time. Without a disk all stay in memory.
 */
export class DiskBlocks implements Blocks {
  readonly restored: Promise<void> | null
  readonly #deps: DiskBlocksDeps
  readonly #memoryBytesMax: number
  readonly #blocks = new Map<CidKey, Bytes | Blob>()
  readonly #listeners: ((news: StoreNews) => void)[] = []
  #bytes = 0
  /** Bytes that will be here in all, as far as told. */
  #expected = 0
  /** Of those here, those of leaves that are in no file. */
  #memoryBytes = 0
  #home: Home = { kind: 'undecided' }
  /** Found when looking for what was left, and kept for when it is needed. */
  #disk: Disk | null = null
  #unwritten: NamedBytes[] = []
  #unwrittenBytes = 0
  #writing: Promise<void> | null = null
  #stopTimer: (() => void) | null = null
  #waiting: (() => void)[] = []

  constructor(deps: DiskBlocksDeps) {
    this.#deps = deps
    this.#memoryBytesMax = deps.memoryBytesMax ?? MEMORY_BYTES_MAX
    this.restored = deps.hasLeftovers ? this.#restore() : null
  }

  get blocks(): number {
    return this.#blocks.size
  }

  get bytes(): number {
    return this.#bytes
  }

  has(cid: Cid): boolean {
    return this.#blocks.has(cid.key) || inlineBytes(cid) !== null
  }

  size(cid: Cid): number | null {
    const block = this.get(cid)
    return block === null ? null : sizeOf(block)
  }

  get(cid: Cid): Bytes | Blob | null {
    return this.#blocks.get(cid.key) ?? inlineBytes(cid)
  }

  put(cid: Cid, block: Bytes | Blob): void {
    if (this.has(cid) || this.#home.kind === 'cleared') return
    const size = sizeOf(block)
    const { bytesMax } = this.#deps
    if (this.#bytes + size > bytesMax) {
      throw new ContentError({ kind: 'too-large', bytes: this.#bytes + size, bytesMax })
    }
    const isLeaf = cid.codec === RAW
    if (this.#home.kind === 'memory' && isLeaf && this.#memoryBytes + size > this.#memoryBytesMax) {
      throw new ContentError({ kind: 'no-room', bytes: this.#bytes })
    }
    this.#bytes += size
    if (isLeaf) this.#memoryBytes += size
    if (!(block instanceof Uint8Array)) {
      this.#blocks.set(cid.key, block)
      return
    }
    const bytes = ownBytes(block)
    this.#blocks.set(cid.key, bytes)
    this.#unwritten.push({ cid, bytes })
    this.#unwrittenBytes += size
    this.#settle()
  }

  async read(cid: Cid): Promise<Bytes> {
    const block = this.get(cid)
    if (block === null) throw new ContentError({ kind: 'missing', cid: cid.text })
    if (block instanceof Uint8Array) return block
    const bytes = await readSlice(cid, block)
    if (bytes !== null) return bytes
    this.#lose(cid)
    throw new ContentError({ kind: 'missing', cid: cid.text })
  }

  room(): Promise<void> | null {
    const isWritten = this.#home.kind === 'opening' || this.#home.kind === 'disk'
    if (!isWritten || this.#unwrittenBytes <= UNWRITTEN_BYTES_MAX) return null
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  expect(bytes: number): void {
    this.#expected = bytes
    if (this.#home.kind === 'undecided' && bytes > DISK_FROM_BYTES) void this.#open()
    if (this.#home.kind === 'disk') void this.#compareWithRoom(this.#home.disk)
  }

  listen(listener: (news: StoreNews) => void): void {
    this.#listeners.push(listener)
  }

  clear(): void {
    const disk = this.#home.kind === 'disk' ? this.#home.disk : this.#disk
    this.#home = { kind: 'cleared' }
    this.#stopTimer?.()
    this.#blocks.clear()
    this.#unwritten = []
    this.#bytes = this.#memoryBytes = this.#unwrittenBytes = 0
    this.#letIn()
    // A batch on its way would be there again after it was removed.
    void Promise.resolve(this.#writing).then(() => disk?.remove()).catch(() => {})
  }

  async #restore(): Promise<void> {
    try {
      this.#disk = await this.#deps.open()
      const found = (await this.#disk?.restore()) ?? []
      if (this.#isCleared()) await this.#disk?.remove()
      if (found.length === 0 || this.#disk === null || this.#isCleared()) return
      for (const { cid, block } of found) {
        const bytes = this.#bytes + sizeOf(block)
        if (this.has(cid) || bytes > this.#deps.bytesMax) continue
        this.#bytes = bytes
        this.#blocks.set(cid.key, block)
      }
      this.#home = { kind: 'disk', disk: this.#disk }
    } catch {
      // What cannot be read again is fetched again.
    }
  }

  /** Decides where new blocks go, and sends them there. */
  #settle(): void {
    switch (this.#home.kind) {
      case 'undecided':
        if (this.#unwrittenBytes > DISK_FROM_BYTES) void this.#open()
        return
      case 'disk':
        if (this.#unwrittenBytes >= BATCH_BYTES) void this.#write()
        else this.#stopTimer ??= this.#deps.after(BATCH_MS, () => void this.#write())
        return
      case 'memory':
        this.#keepInMemory()
        return
      case 'opening':
      case 'cleared':
        return
    }
  }

  async #open(): Promise<void> {
    this.#home = { kind: 'opening' }
    const disk = this.#disk ?? (await this.#deps.open().catch(() => null))
    if (this.#isCleared()) {
      await disk?.remove().catch(() => {})
      return
    }
    if (disk !== null) {
      this.#home = { kind: 'disk', disk }
      this.#settle()
      await this.#compareWithRoom(disk)
      return
    }
    this.#stayInMemory(storage('noPlace'))
  }

  /** Writes what is unwritten, a batch at a time; one call at a time does so. */
  async #write(): Promise<void> {
    this.#stopTimer?.()
    this.#stopTimer = null
    if (this.#writing !== null || this.#home.kind !== 'disk') return
    const { disk } = this.#home
    this.#writing = (async () => {
      do await this.#writeBatch(disk)
      while (this.#unwrittenBytes >= BATCH_BYTES && this.#home.kind === 'disk')
    })()
    await this.#writing
    this.#writing = null
    if (this.#unwritten.length > 0) this.#settle()
  }

  async #writeBatch(disk: Disk): Promise<void> {
    const batch = takeBatch(this.#unwritten)
    if (batch.length === 0) return
    let written: Blob
    try {
      written = await disk.write(batch)
    } catch (error) {
      this.#unwritten = [...batch, ...this.#unwritten]
      this.#failToWrite(error)
      return
    }
    if (this.#isCleared()) return
    let at = 0
    for (const { cid, bytes } of batch) {
      this.#unwrittenBytes -= bytes.length
      if (cid.codec === RAW) {
        this.#blocks.set(cid.key, written.slice(at, at + bytes.length))
        this.#memoryBytes -= bytes.length
      }
      at += bytes.length
    }
    this.#letIn()
  }

  #failToWrite(error: unknown): void {
    if (this.#isCleared()) return
    const isFull = error instanceof DOMException && error.name === 'QuotaExceededError'
    this.#stayInMemory(storage(isFull ? 'full' : 'unwritable'))
  }

  #stayInMemory(why: string): void {
    this.#home = { kind: 'memory' }
    this.#keepInMemory()
    this.#letIn()
    this.#tell({ kind: 'trouble', sentence: storage('inMemory', { why, room: sizeText(this.#memoryBytesMax) }) })
  }

  /** As blobs, which the browser keeps outside of the page's own memory. */
  #keepInMemory(): void {
    for (const { cid, bytes } of this.#unwritten) {
      if (cid.codec === RAW) this.#blocks.set(cid.key, new Blob([bytes]))
    }
    this.#unwritten = []
    this.#unwrittenBytes = 0
  }

  /** Says early what is not going to fit. */
  async #compareWithRoom(disk: Disk): Promise<void> {
    const rest = this.#expected - this.#bytes
    const room = await disk.roomBytes().catch(() => null)
    if (room === null || room >= rest || this.#isCleared()) return
    const sentence = storage('tooLittle', { needed: sizeText(rest), given: sizeText(room) })
    this.#tell({ kind: 'trouble', sentence })
  }

  #lose(cid: Cid): void {
    const block = this.#blocks.get(cid.key)
    if (block === undefined) return
    this.#blocks.delete(cid.key)
    this.#bytes -= sizeOf(block)
    this.#tell({ kind: 'lost', cids: [cid], sentence: storage('lost') })
  }

  #tell(news: StoreNews): void {
    for (const listener of this.#listeners) listener(news)
  }

  #letIn(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  // A method, because a check in place would be taken to hold after the next wait as well.
  #isCleared(): boolean {
    return this.#home.kind === 'cleared'
  }
}

/** A small view would keep the whole message it came in. */
function ownBytes(bytes: Bytes): Bytes {
  return bytes.byteLength * 2 > bytes.buffer.byteLength ? bytes : bytes.slice()
}

/** The oldest blocks, as many as make a batch. */
function takeBatch(unwritten: NamedBytes[]): NamedBytes[] {
  let bytes = 0
  const end = unwritten.findIndex((block) => (bytes += block.bytes.length) >= BATCH_BYTES)
  return unwritten.splice(0, end < 0 ? unwritten.length : end + 1)
}
