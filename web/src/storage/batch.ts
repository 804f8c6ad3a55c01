import { concat, parseCid, sizeOf, type Bytes, type Cid } from '../content/index.ts'

/**
 * Blocks in one file, which is written once and never changed: four bytes that tell how long its head is, the head, and
 * the blocks back to back. The head is JSON, a CID and a length for each block.
 */
export interface Place {
  readonly cid: Cid
  readonly at: number
  readonly size: number
}

/** Longest head that we read: for as many blocks as a batch can have, however small they are. */
const HEAD_BYTES_MAX = 4 << 20
const LENGTH_BYTES = 4

export interface NamedBytes {
  readonly cid: Cid
  readonly bytes: Bytes
}

/** The bytes of the file, and where in it the blocks begin. */
export function encodeBatch(blocks: readonly NamedBytes[]): { bytes: Bytes; bodyAt: number } {
  const head = new TextEncoder().encode(JSON.stringify(blocks.map(({ cid, bytes }) => [cid.text, bytes.length])))
  const length = new Uint8Array(LENGTH_BYTES)
  new DataView(length.buffer).setUint32(0, head.length)
  const bytes = concat([length, head, ...blocks.map((block) => block.bytes)])
  return { bytes, bodyAt: LENGTH_BYTES + head.length }
}

/** Where the blocks of such a file should be. Nothing of it is to be believed: a tab may have ended while it wrote. */
export async function readPlaces(file: Blob): Promise<Place[]> {
  const length = new Uint8Array(await file.slice(0, LENGTH_BYTES).arrayBuffer())
  if (length.length < LENGTH_BYTES) return []
  const headBytes = new DataView(length.buffer).getUint32(0)
  if (headBytes > HEAD_BYTES_MAX) return []
  const bodyAt = LENGTH_BYTES + headBytes
  return placesIn(await file.slice(LENGTH_BYTES, bodyAt).text(), bodyAt, sizeOf(file))
}

function placesIn(head: string, bodyAt: number, fileBytes: number): Place[] {
  const places: Place[] = []
  let at = bodyAt
  try {
    const told: unknown = JSON.parse(head)
    if (!Array.isArray(told)) return []
    for (const each of told) {
      if (!Array.isArray(each)) break
      const [text, size] = each as unknown[]
      if (typeof text !== 'string' || typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) break
      if (at + size > fileBytes) break
      places.push({ cid: parseCid(text), at, size })
      at += size
    }
  } catch {
    // A head that cannot be read to its end tells what came before that.
  }
  return places
}
