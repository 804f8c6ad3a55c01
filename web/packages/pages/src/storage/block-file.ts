import { concat, parseCid, sizeOf, uint32, utf8, type Bytes, type Cid } from '../content/index.ts'

/**
 * Blocks in one file that is written once and never changed: four bytes with the length of the header, the header, and
 * the blocks without gaps. The header is JSON: a CID and a length for each block.
 */
export interface BlockPosition {
  readonly cid: Cid
  readonly at: number
  readonly size: number
}

/** The longest header that is read: for as many blocks as a batch can have, however small they are. */
const HEAD_BYTES_MAX = 4 << 20
const LENGTH_BYTES = 4

export interface StoredBlock {
  readonly cid: Cid
  readonly bytes: Bytes
}

/** Encodes the file. `bodyAt`: where in it the blocks begin. */
export function encodeBlockFile(blocks: readonly StoredBlock[]): { bytes: Bytes; bodyAt: number } {
  const head = utf8(JSON.stringify(blocks.map(({ cid, bytes }) => [cid.text, bytes.length])))
  const bytes = concat([uint32(head.length), head, ...blocks.map((block) => block.bytes)])
  return { bytes, bodyAt: LENGTH_BYTES + head.length }
}

/** Reads the positions of a file's blocks. The header may be invalid, because the tab may have ended while writing. */
export async function readPositions(file: Blob): Promise<BlockPosition[]> {
  const length = new Uint8Array(await file.slice(0, LENGTH_BYTES).arrayBuffer())
  if (length.length < LENGTH_BYTES) return []
  const headBytes = new DataView(length.buffer).getUint32(0)
  if (headBytes > HEAD_BYTES_MAX) return []
  const bodyAt = LENGTH_BYTES + headBytes
  return placesIn(await file.slice(LENGTH_BYTES, bodyAt).text(), bodyAt, sizeOf(file))
}

function placesIn(head: string, bodyAt: number, fileBytes: number): BlockPosition[] {
  const places: BlockPosition[] = []
  let at = bodyAt
  try {
    const entries: unknown = JSON.parse(head)
    if (!Array.isArray(entries)) return []
    for (const entry of entries) {
      if (!Array.isArray(entry)) break
      const [text, size] = entry as unknown[]
      if (typeof text !== 'string' || typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) break
      if (at + size > fileBytes) break
      places.push({ cid: parseCid(text), at, size })
      at += size
    }
  } catch {
    // If the end of the header cannot be read, the blocks before are returned.
  }
  return places
}
