import { type Bytes, type Cid, concat, DAG_PB, isSameBytes, makeCid, SHA2_256, uint32, utf8 } from '../content/index.ts'
import { ENTRIES_MAX, isNodeCid } from './entry.ts'
import { LiveError } from './error.ts'
import { checkMagic } from './fields.ts'
import { type SigningKey, verifySignature } from './signing.ts'

/** The length of a head. */
export const HEAD_BYTES = 148
/** The signature covers the bytes before it. */
const SIGNED_BYTES = 84

const MAGIC = utf8('watchfire head 1')

/** The last entry of a live page, signed by its publisher. */
export interface Head {
  readonly number: number
  readonly entry: Cid
  /** The encoded head with its signature. */
  readonly bytes: Bytes
}

/** Verifies a head of this page, whose beginning has this public key. */
export async function verifyHead(bytes: Bytes, page: Cid, key: Bytes): Promise<Head> {
  if (bytes.length !== HEAD_BYTES) throw new LiveError('HeadLength')
  const signed = bytes.slice(0, SIGNED_BYTES)
  checkMagic(signed, MAGIC)
  if (!isSameBytes(signed.subarray(16, 48), page.digest) || !isNodeCid(page)) throw new LiveError('OtherPage')
  const number = readNumber(signed)
  if (number < 1 || number > ENTRIES_MAX) throw new LiveError('Number')
  if (!(await verifySignature(key, bytes.slice(SIGNED_BYTES), signed))) throw new LiveError('Signature')
  return { number, entry: makeCid(1, DAG_PB, SHA2_256, signed.slice(52)), bytes }
}

/** The number and the entry of a head of this page whose signature was not verified. */
export function unverifiedEntry(bytes: Bytes, page: Cid): { readonly number: number; readonly digest: Bytes } | null {
  const isOurs = isSameBytes(bytes.subarray(0, 48), concat([MAGIC, page.digest])) && bytes.length === HEAD_BYTES
  return isOurs ? { number: readNumber(bytes), digest: bytes.subarray(52, SIGNED_BYTES) } : null
}

/** Signs that entry `number` of the page is the last. */
export async function signHead(key: SigningKey, page: Cid, number: number, entry: Cid): Promise<Head> {
  if (number < 1 || number > ENTRIES_MAX) throw new LiveError('Number')
  if (!isNodeCid(page) || !isNodeCid(entry)) throw new LiveError('UnsupportedCid')
  const signed = concat([MAGIC, page.digest, uint32(number), entry.digest])
  return { number, entry, bytes: concat([signed, await key.sign(signed)]) }
}

function readNumber({ buffer, byteOffset }: Bytes): number {
  return new DataView(buffer, byteOffset).getUint32(48)
}
