import type { Bytes, Cid } from '../content/index.ts'
import type { StoredBlock } from './block-file.ts'

/** A block that was on disk already and was hashed again. */
export interface RestoredBlock {
  readonly cid: Cid
  readonly block: Bytes | Blob
}

/** The blocks of one page on disk. */
export interface Disk {
  /** Blocks of an earlier visit. Damaged blocks are skipped. */
  restore(): Promise<RestoredBlock[]>
  /** Writes blocks. The returned blob has them without gaps, and is read when bytes are needed. */
  write(blocks: readonly StoredBlock[]): Promise<Blob>
  /** The note of an earlier visit, and the one before it. */
  notes(): Promise<Bytes[]>
  writeNote(note: Bytes): Promise<void>
  /** Bytes that the browser still allows. `null` if unknown. */
  roomBytes(): Promise<number | null>
  remove(): Promise<void>
}

/** Opens the disk for a page. `null` if there is none. */
export type OpenDisk = (page: string) => Promise<Disk | null>
