import { RAW, readSlice, type Bytes, type KeyStore } from '../content/index.ts'
import { encodeBlockFile, readPositions, type StoredBlock } from './block-file.ts'
import type { Disk, RestoredBlock } from './disk.ts'

/** Writes a new file below the root of the origin's private file system. */
export type WriteFile = (path: readonly string[], bytes: Bytes) => Promise<File>

/** Blocks that are read and hashed at the same time when an earlier visit is restored. */
const HASHED_AT_ONCE = 4
/** Notes are written to two files in turn. If the tab ends while it writes one, the other is whole. */
const NOTE_FILES = 2
/** A longer note is not one of ours. */
const NOTE_BYTES_MAX = 4096

export interface PageFolderDeps {
  readonly write: WriteFile
  readonly estimate: () => Promise<StorageEstimate>
  /** The key of a live page, which is stored beside its blocks. */
  readonly key?: () => KeyStore | undefined
  readonly onRemoved?: () => void
}

/** The folder of one page, with one file for each batch of blocks. It is created with the first batch or note. */
export class PageFolder implements Disk {
  readonly #parent: () => Promise<FileSystemDirectoryHandle>
  readonly #path: readonly string[]
  readonly #name: string
  readonly #deps: PageFolderDeps
  /** File names are numbers, in the order in which they were written. */
  #nextFile: number | null = null
  #notesWritten = 0

  constructor(parent: () => Promise<FileSystemDirectoryHandle>, path: readonly string[], deps: PageFolderDeps) {
    this.#parent = parent
    this.#path = path
    this.#name = path.at(-1) ?? ''
    this.#deps = deps
  }

  get key(): KeyStore | undefined {
    return this.#deps.key?.()
  }

  async restore(): Promise<RestoredBlock[]> {
    const found: RestoredBlock[] = []
    for (const file of await this.#files()) {
      const places = await readPositions(file)
      for (let i = 0; i < places.length; i += HASHED_AT_ONCE) {
        const some = places.slice(i, i + HASHED_AT_ONCE).map(async ({ cid, at, size }) => {
          const slice = file.slice(at, at + size)
          const bytes = await readSlice(cid, slice)
          if (bytes !== null) found.push({ cid, block: cid.codec === RAW ? slice : bytes })
        })
        await Promise.all(some)
      }
    }
    return found
  }

  async write(blocks: readonly StoredBlock[]): Promise<Blob> {
    if (this.#nextFile === null) await this.#files()
    const name = `${this.#nextFile ?? 0}`
    this.#nextFile = Number(name) + 1
    const { bytes, bodyAt } = encodeBlockFile(blocks)
    const file = await this.#deps.write([...this.#path, name], bytes)
    return file.slice(bodyAt)
  }

  async notes(): Promise<Bytes[]> {
    const files = (await this.#entries()).filter(({ name, file }) => /^note\.\d$/.test(name) && file.size <= NOTE_BYTES_MAX)
    return Promise.all(files.map(async ({ file }) => new Uint8Array(await file.arrayBuffer())))
  }

  async writeNote(note: Bytes): Promise<void> {
    const name = `note.${this.#notesWritten++ % NOTE_FILES}`
    // A copy, because the writer takes the bytes away.
    await this.#deps.write([...this.#path, name], note.slice())
  }

  async roomBytes(): Promise<number | null> {
    const { quota, usage } = await this.#deps.estimate()
    return quota === undefined || usage === undefined ? null : Math.max(0, quota - usage)
  }

  async remove(): Promise<void> {
    const removeFolder = async () => (await this.#parent()).removeEntry(this.#name, { recursive: true })
    // A key that cannot be removed now is removed by the next sweep, as the folder would be.
    await Promise.allSettled([this.key?.remove(), removeFolder()])
    this.#deps.onRemoved?.()
  }

  /** The files with blocks, the oldest first. */
  async #files(): Promise<File[]> {
    const blocks = (await this.#entries()).filter(({ name }) => /^\d+$/.test(name))
    const files = blocks.map(({ name, file }) => ({ number: Number(name), file }))
    files.sort((a, b) => a.number - b.number)
    this.#nextFile = (files.at(-1)?.number ?? -1) + 1
    return files.map(({ file }) => file)
  }

  /** All files in the folder. */
  async #entries(): Promise<{ name: string; file: File }[]> {
    const parent = await this.#parent()
    const folder = await parent.getDirectoryHandle(this.#name).catch(passOverMissing)
    if (folder === undefined) return []
    const found: { name: string; file: File }[] = []
    for await (const [name, handle] of folder.entries()) {
      if (handle.kind === 'file') found.push({ name, file: await (handle as FileSystemFileHandle).getFile() })
    }
    return found
  }
}

function passOverMissing(error: unknown): undefined {
  if (error instanceof DOMException && error.name === 'NotFoundError') return undefined
  throw error
}
