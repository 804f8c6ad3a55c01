import type { Bytes, Cid } from '../content/index.ts'
import type { NamedBytes } from './batch.ts'

/** A block that was on disk already, and has been hashed again. */
export interface Restored {
  readonly cid: Cid
  readonly block: Bytes | Blob
}

/** Where the blocks of one page lie on disk. */
export interface Disk {
  /** What an earlier visit left here. Blocks that are not what they should be are passed over. */
  restore(): Promise<Restored[]>
  /** Writes blocks; the answer holds them back to back, and is read when it is asked for bytes. */
  write(blocks: readonly NamedBytes[]): Promise<Blob>
  /** Bytes that the browser would still let us write; `null` when it does not tell. */
  roomBytes(): Promise<number | null>
  remove(): Promise<void>
}

/** Gives a page its place; `null` where there is no disk to be had. */
export type OpenDisk = (page: string) => Promise<Disk | null>
