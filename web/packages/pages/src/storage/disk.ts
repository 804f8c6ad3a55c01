import type { Bytes, Cid, KeyStore } from '../content/index.ts'
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
  /** Absent in a program without live pages. */
  readonly key?: KeyStore | undefined
  /** Bytes that the browser still allows. `null` if unknown. */
  roomBytes(): Promise<number | null>
  /** Removes the blocks, the notes and the key. */
  remove(): Promise<void>
}

/** Opens the disk for a page. `null` if there is none. */
export type OpenDisk = (page: string) => Promise<Disk | null>
