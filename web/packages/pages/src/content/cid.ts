import { base16, base32, base36, base58 } from './base.ts'
import { concat, type Bytes } from './bytes.ts'
import { malformed, unsupported } from './error.ts'
import { sha256 } from './sha256.ts'
import { decodeVarint, encodeVarints } from './varint.ts'

export const RAW = 0x55
export const DAG_PB = 0x70
export const SHA2_256 = 0x12
export const IDENTITY = 0x00

/** The longest CID that is read, and the longest digest in one, in bytes. boxo has the same limits. */
export const CID_BYTES_MAX = 168
export const DIGEST_BYTES_MAX = 128

/** A content identifier: what a block's bytes mean, and their hash. */
export interface Cid {
  readonly version: 0 | 1
  /** Such as `RAW` or `DAG_PB`. */
  readonly codec: number
  /** Such as `SHA2_256`. */
  readonly hash: number
  readonly digest: Bytes
  /** The text form: base58 for version 0, base32 for version 1. */
  readonly text: string
  /** The same for both versions of a CID. It is the key of maps, and the name of a page's topic. */
  readonly key: CidKey
}

declare const brand: unique symbol
/** A CID as version 1 in base32. */
export type CidKey = string & { readonly [brand]: 'CidKey' }

/** The part of a CID that Bitswap sends with a block: all but the digest. */
export interface CidPrefix {
  readonly version: 0 | 1
  readonly codec: number
  readonly hash: number
  readonly digestLength: number
}

export function makeCid(version: 0 | 1, codec: number, hash: number, digest: Bytes): Cid {
  const key = `b${base32.encode(encodeParts(1, codec, hash, digest))}` as CidKey
  const text = version === 1 ? key : base58.encode(encodeParts(0, codec, hash, digest))
  return { version, codec, hash, digest, text, key }
}

/** The CID of a new block: version 1, sha2-256. */
export async function cidOf(codec: number, bytes: Bytes): Promise<Cid> {
  return makeCid(1, codec, SHA2_256, await sha256(bytes))
}

/** The CID that a received block has by its bytes. Rejects hash functions other than sha2-256. */
export async function cidOfBlock(prefix: CidPrefix, bytes: Bytes): Promise<Cid> {
  if (prefix.hash !== SHA2_256 || prefix.digestLength !== 32) {
    throw unsupported('hash', prefix.hash)
  }
  return makeCid(prefix.version, prefix.codec, SHA2_256, await sha256(bytes))
}

const BASES = new Map(Object.entries({ f: base16, b: base32, k: base36, z: base58 }))

/** Parses the text form: base58 for version 0; base32, base36, base16 (also in capitals) or base58 for version 1. */
export function parseCid(text: string): Cid {
  if (text.length > 2 * CID_BYTES_MAX) throw malformed('cidLong')
  if (text.length === 46 && text.startsWith('Qm')) return decodeCid(decodeBase('z', text))
  // Only ASCII: the sign for Kelvin would become a k.
  const plain = /^[BFK][^a-z]*$/.test(text) ? text.replace(/[A-Z]/g, (letter) => letter.toLowerCase()) : text
  const cid = decodeCid(decodeBase(plain.slice(0, 1), plain.slice(1)))
  if (cid.version !== 1) throw malformed('noCid')
  return cid
}

/** Base58 and base36 take quadratic time, so callers limit the length. */
function decodeBase(prefix: string, text: string): Uint8Array {
  const bytes = BASES.get(prefix)?.decode(text) ?? null
  if (bytes === null) throw malformed('noCid')
  return bytes
}

/** Decodes a CID that fills `bytes` exactly. Only the hash functions sha2-256 and identity are supported. */
export function decodeCid(bytes: Uint8Array): Cid {
  if (bytes.length > CID_BYTES_MAX) throw malformed('cidLong')
  if (bytes.length === 34 && bytes[0] === SHA2_256 && bytes[1] === 32) {
    return makeCid(0, DAG_PB, SHA2_256, bytes.slice(2))
  }
  const { version, codec, hash, digestLength, next } = decodeHead(bytes)
  if (version !== 1) throw malformed('cidVersion')
  if (digestLength > DIGEST_BYTES_MAX) throw malformed('cidDigest')
  if (next + digestLength !== bytes.length) throw malformed('cidLength')
  const isRead = hash === IDENTITY || (hash === SHA2_256 && digestLength === 32)
  if (!isRead) throw unsupported('hash', hash)
  return makeCid(version, codec, hash, bytes.slice(next))
}

export function encodeCid(cid: Cid): Bytes {
  return encodeParts(cid.version, cid.codec, cid.hash, cid.digest)
}

export function encodePrefix(cid: Cid): Bytes {
  return encodeVarints(cid.version, cid.codec, cid.hash, cid.digest.length)
}

export function decodePrefix(bytes: Uint8Array): CidPrefix {
  const { next, ...prefix } = decodeHead(bytes)
  if (next !== bytes.length) throw malformed('cidLength')
  return prefix
}

/** Decodes the numbers before the digest. `next`: where the digest begins. */
function decodeHead(bytes: Uint8Array): CidPrefix & { readonly next: number } {
  const version = decodeVarint(bytes, 0)
  if (version.value !== 0 && version.value !== 1) throw malformed('cidVersion')
  const codec = decodeVarint(bytes, version.next)
  const hash = decodeVarint(bytes, codec.next)
  const length = decodeVarint(bytes, hash.next)
  return { version: version.value, codec: codec.value, hash: hash.value, digestLength: length.value, next: length.next }
}

/** The bytes of a block that its CID contains: an identity CID, or no bytes at all. `null` for other CIDs. */
export function inlineBytes(cid: Cid): Bytes | null {
  if (cid.hash === IDENTITY) return cid.digest
  // kubo cannot send the empty block: it treats size 0 as unknown.
  return cid.key === EMPTY_RAW ? new Uint8Array() : null
}

const EMPTY_RAW = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'

function encodeParts(version: 0 | 1, codec: number, hash: number, digest: Bytes): Bytes {
  const head = version === 1 ? [1, codec] : []
  return concat([encodeVarints(...head, hash, digest.length), digest])
}
