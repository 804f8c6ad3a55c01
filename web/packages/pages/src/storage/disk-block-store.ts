import { BlockTable, ContentError, RAW, sizeOf, type BlockStore, type Bytes, type Cid, type KeyStore } from '../content/index.ts'
import { sizeText } from '../messages/index.ts'
import { storage } from '../messages/storage.ts'
import type { StoredBlock } from './block-file.ts'
import type { Disk } from './disk.ts'
import { BATCH_BYTES, memoryBytesOf, readAll, takeBatch, type UnwrittenBlock } from './unwritten.ts'

/**
 * A page of at most this many bytes waits for `FIRST_MS` before the disk is opened, so that opening does not delay its first view. A
 * live page does not wait: without its heads nobody finds its entries.
 */
const DISK_FROM_BYTES = 4 << 20
/** A reload within this time, and that of the write, loses the page. */
const FIRST_MS = 100
/** The longest wait of a block for others. */
const BATCH_MS = 500
/** Bytes that may wait for the disk. When the limit is reached, `room` makes callers wait. */
const UNWRITTEN_BYTES_MAX = 32 << 20
/**
 * Bytes of a page that may be in memory if there is no disk, or no room on it. When the limit is reached, further
 * blocks are rejected.
 */
export const MEMORY_BYTES_MAX = 512 << 20

export interface DiskBlockStoreDeps {
  readonly bytesMax: number
  readonly open: () => Promise<Disk | null>
  /** Whether this tab may have blocks of the page on disk from before a reload. */
  readonly hasLeftovers: boolean
  /** Calls once, after this many milliseconds. The returned function cancels the call. */
  readonly after: (milliseconds: number, callback: () => void) => () => void
  readonly memoryBytesMax?: number
}

/** The destination of new blocks. `undecided`: nowhere yet. `memory`: there is no disk, or no room on it. */
type Home = 'undecided' | 'opening' | 'disk' | 'memory' | 'cleared'

/**
 * A store for received blocks, and for those of a page that this tab publishes. Leaves are written to disk in
 * batches and are then slices of a file. Inner blocks stay in memory and are on disk too, for the next visit. Without a
 * disk, received blocks stay in memory, and published ones in their files.
 */
export class DiskBlockStore extends BlockTable<Bytes | Blob> implements BlockStore {
  readonly restored: Promise<void> | null
  notes: readonly Bytes[] = []
  readonly #deps: DiskBlockStoreDeps
  readonly #memoryBytesMax: number
  /** The expected number of bytes in all, if known. */
  #expected = 0
  /** Bytes of leaves that are in no file, neither here nor where they came from. */
  #memoryBytes = 0
  #home: Home = 'undecided'
  /** The disk, once it was opened. It may have blocks also when new ones stay in memory. */
  #disk: Disk | null = null
  #unwritten: UnwrittenBlock[] = []
  #unwrittenBytes = 0
  #opening: Promise<void> | null = null
  #writing: Promise<void> | null = null
  /** Blocks that were put, and those of them that were written. */
  #putCount = 0
  #writtenCount = 0
  /** A note that waits until the blocks before it are written. It may name them. */
  #note: { readonly bytes: Bytes; readonly after: number } | null = null
  /** Whether a page that would be in memory without its notes could not be written. It is not tried again. */
  #isUnwritable = false
  #stopTimer: (() => void) | null = null
  #waiting: (() => void)[] = []

  constructor(deps: DiskBlockStoreDeps) {
    super()
    this.#deps = deps
    this.#memoryBytesMax = deps.memoryBytesMax ?? MEMORY_BYTES_MAX
    this.restored = deps.hasLeftovers ? this.#restore() : null
  }

  put(cid: Cid, block: Bytes | Blob): void {
    if (this.has(cid) || this.#home === 'cleared') return
    const size = sizeOf(block)
    const { bytesMax } = this.#deps
    if (this.tableBytes + size > bytesMax) {
      throw new ContentError({ kind: 'too-large', bytes: this.tableBytes + size, bytesMax })
    }
    const inMemory = memoryBytesOf(cid, block)
    if (this.#home === 'memory' && inMemory > 0 && this.#memoryBytes + inMemory > this.#memoryBytesMax) {
      throw new ContentError({ kind: 'no-room', bytes: this.tableBytes })
    }
    this.tableBytes += size
    this.#memoryBytes += inMemory
    const own = block instanceof Uint8Array ? ownBytes(block) : block
    this.table.set(cid.key, own)
    this.#unwritten.push({ cid, block: own })
    this.#putCount++
    this.#unwrittenBytes += size
    this.#settle()
  }

  putNote(bytes: Bytes): void {
    if (this.#home === 'memory' || this.#home === 'cleared' || this.#isUnwritable) return
    this.#note = { bytes, after: this.#putCount }
    this.#settle()
  }

  async flush(): Promise<boolean> {
    if (this.#home === 'undecided' && !this.#isUnwritable) void this.#open()
    await this.#opening
    while (this.#home === 'disk' && (this.#writing ?? this.#unwritten.length > 0)) await (this.#writing ?? this.#write())
    return this.#home === 'disk'
  }

  get key(): KeyStore | null {
    return this.#disk?.key ?? null
  }

  room(): Promise<void> | null {
    const isWritten = this.#home === 'opening' || this.#home === 'disk'
    if (!isWritten || this.#unwrittenBytes <= UNWRITTEN_BYTES_MAX) return null
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  expect(bytes: number): void {
    this.#expected = bytes
    if (this.#home === 'undecided' && bytes > DISK_FROM_BYTES) void this.#open()
    if (this.#home === 'disk' && this.#disk !== null) void this.#compareWithRoom(this.#disk)
  }

  clear(): void {
    const disk = this.#disk
    this.#home = 'cleared'
    this.#stopTimer?.()
    this.table.clear()
    this.#unwritten = []
    this.#note = null
    this.notes = []
    this.tableBytes = this.#memoryBytes = this.#unwrittenBytes = 0
    this.#letIn()
    // Otherwise a batch that is being written would remain after the removal.
    void Promise.resolve(this.#writing)
      .then(() => disk?.remove())
      .catch(() => {})
  }

  async #restore(): Promise<void> {
    try {
      this.#disk = await this.#deps.open()
      const found = (await this.#disk?.restore()) ?? []
      const notes = (await this.#disk?.notes()) ?? []
      if (this.#isCleared()) await this.#disk?.remove()
      if (found.length === 0 || this.#disk === null || this.#isCleared()) return
      for (const { cid, block } of found) {
        const bytes = this.tableBytes + sizeOf(block)
        if (this.has(cid) || bytes > this.#deps.bytesMax) continue
        this.tableBytes = bytes
        this.table.set(cid.key, block)
      }
      this.#home = 'disk'
      this.notes = notes
    } catch {
      // Blocks that cannot be restored are fetched again.
    }
  }

  /** Decides where new blocks go, and starts writing. */
  #settle(): void {
    switch (this.#home) {
      case 'undecided':
        if (this.#unwrittenBytes > DISK_FROM_BYTES || this.#note !== null) void this.#open()
        else if (!this.#isUnwritable) this.#stopTimer ??= this.#deps.after(FIRST_MS, () => void this.flush())
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

  #open(): Promise<void> {
    this.#home = 'opening'
    this.#opening = this.#openDisk()
    return this.#opening
  }

  async #openDisk(): Promise<void> {
    const disk = this.#disk ?? (await this.#deps.open().catch(() => null))
    if (this.#isCleared()) {
      await disk?.remove().catch(() => {})
      return
    }
    if (disk !== null) {
      this.#disk = disk
      this.#home = 'disk'
      void this.#write()
      await this.#compareWithRoom(disk)
      return
    }
    this.#giveUpDisk(storage('noPlace'))
  }

  /** Writes what is not written yet, batch by batch. Only one call runs at a time. */
  async #write(): Promise<void> {
    this.#stopTimer?.()
    this.#stopTimer = null
    const disk = this.#disk
    if (this.#writing !== null || this.#home !== 'disk' || disk === null) return
    this.#writing = (async () => {
      do await this.#writeBatch(disk)
      while (this.#unwrittenBytes >= BATCH_BYTES && this.#home === 'disk')
      await this.#writeNote(disk)
    })()
    await this.#writing
    this.#writing = null
    if (this.#unwritten.length > 0 || this.#note !== null) this.#settle()
  }

  async #writeNote(disk: Disk): Promise<void> {
    const note = this.#note
    if (note === null || note.after > this.#writtenCount || this.#home !== 'disk') return
    this.#note = null
    await disk.writeNote(note.bytes).catch((error: unknown) => this.#failToWrite(error))
  }

  async #writeBatch(disk: Disk): Promise<void> {
    const batch = takeBatch(this.#unwritten)
    if (batch.length === 0) return
    let written: Blob
    let stored: StoredBlock[]
    try {
      stored = await readAll(batch)
      written = await disk.write(stored)
    } catch (error) {
      this.#unwritten = [...batch, ...this.#unwritten]
      this.#failToWrite(error)
      return
    }
    if (this.#isCleared()) return
    for (const { cid, block } of batch) {
      this.#unwrittenBytes -= sizeOf(block)
      this.#memoryBytes -= memoryBytesOf(cid, block)
      this.#writtenCount++
    }
    let at = 0
    for (const { cid, bytes } of stored) {
      if (cid.codec === RAW) this.table.set(cid.key, written.slice(at, at + bytes.length))
      at += bytes.length
    }
    this.#letIn()
  }

  #failToWrite(error: unknown): void {
    if (this.#isCleared()) return
    const isFull = error instanceof DOMException && error.name === 'QuotaExceededError'
    this.#giveUpDisk(storage(isFull ? 'full' : 'unwritable'))
  }

  /** A page that is small enough for memory is no trouble: it only has to be fetched again after a reload. */
  #giveUpDisk(why: string): void {
    const isSmall = !this.#isUnwritable && Math.max(this.tableBytes, this.#expected) <= DISK_FROM_BYTES
    this.#note = null
    this.#isUnwritable = true
    this.#home = isSmall ? 'undecided' : 'memory'
    this.#letIn()
    if (isSmall) return
    this.#keepInMemory()
    this.notify({ kind: 'trouble', sentence: storage('inMemory', { why, room: sizeText(this.#memoryBytesMax) }) })
  }

  /** As blobs, which the browser keeps outside the page's own memory, or as parts of the files that they came from. */
  #keepInMemory(): void {
    for (const { cid, block } of this.#unwritten) {
      if (cid.codec === RAW && block instanceof Uint8Array) this.table.set(cid.key, new Blob([block]))
    }
    this.#unwritten = []
    this.#unwrittenBytes = 0
  }

  /** Reports early if the page will not fit on the disk. */
  async #compareWithRoom(disk: Disk): Promise<void> {
    const rest = this.#expected - this.tableBytes
    const room = await disk.roomBytes().catch(() => null)
    // A disk that has become full meanwhile was reported, and no later guess replaces that.
    if (room === null || room >= rest || this.#home !== 'disk') return
    const sentence = storage('tooLittle', { needed: sizeText(rest), given: sizeText(room) })
    this.notify({ kind: 'trouble', sentence })
  }

  protected withdraw(cid: Cid): void {
    const block = this.table.get(cid.key)
    if (block === undefined) return
    this.table.delete(cid.key)
    this.tableBytes -= sizeOf(block)
    this.notify({ kind: 'lost', cids: [cid], sentence: storage('lost') })
  }

  #letIn(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  // A method, because TypeScript would assume that an inline check still holds after the next await.
  #isCleared(): boolean {
    return this.#home === 'cleared'
  }
}

/** A small view would keep the whole message in memory. */
function ownBytes(bytes: Bytes): Bytes {
  return bytes.byteLength * 2 > bytes.buffer.byteLength ? bytes : bytes.slice()
}
