import { RAW, readSlice, sizeOf, type Bytes, type Cid } from '../content/index.ts'
import type { StoredBlock } from './block-file.ts'

/** The largest batch. */
export const BATCH_BYTES = 8 << 20

/** A block that waits for the disk: received bytes, or a part of a file that this tab publishes, which is read when it is written. */
export interface UnwrittenBlock {
  readonly cid: Cid
  readonly block: Bytes | Blob
}

/** Bytes of a leaf that only this tab has. */
export function memoryBytesOf(cid: Cid, block: Bytes | Blob): number {
  return cid.codec === RAW && block instanceof Uint8Array ? block.length : 0
}

/** The bytes of these blocks, without parts of files that have changed: those are lost, as `read` finds out. */
export async function readAll(batch: readonly UnwrittenBlock[]): Promise<StoredBlock[]> {
  const read = batch.map(async ({ cid, block }) => ({ cid, bytes: block instanceof Uint8Array ? block : await readSlice(cid, block) }))
  const all = await Promise.all(read)
  return all.flatMap(({ cid, bytes }) => (bytes === null ? [] : { cid, bytes }))
}

/** The oldest blocks, as many as fit in a batch. */
export function takeBatch(unwritten: UnwrittenBlock[]): UnwrittenBlock[] {
  let bytes = 0
  const end = unwritten.findIndex(({ block }) => {
    bytes += sizeOf(block)
    return bytes >= BATCH_BYTES
  })
  return unwritten.splice(0, end < 0 ? unwritten.length : end + 1)
}
