import { concat, isSameBytes, uint32, utf8, type Bytes } from '../content/index.ts'
import { deriveSecrets, type DeriveSecrets, type RecordCipher } from './cipher.ts'
import { PrivateError } from './error.ts'
import { HEADER_BYTES, isRecordBytes, Layout, TAG_BYTES } from './layout.ts'

/** The magic bytes of every private page. The last letter is the version. */
const MAGIC: Bytes = utf8('watchfire seal 1')
/** The part of the header that does not depend on the key. */
const PREFIX_BYTES = 32

/** Whether a page that begins with these bytes is private, in any version. */
export function isSealed(start: Uint8Array): boolean {
  const unversioned = MAGIC.length - 1
  return start.length >= unversioned && isSameBytes(start.subarray(0, unversioned), MAGIC.subarray(0, unversioned))
}

/**
 * Encrypts and decrypts the records of one page, in any order. The nonce of a record is its number and whether it is
 * the last, so that no record can replace another.
 *
 * A record may be encrypted again only with the same content, unless the first ciphertext was never sent. Two contents
 * with the same nonce reveal both.
 */
export class Records {
  readonly layout: Layout
  readonly header: Bytes
  readonly #cipher: RecordCipher

  private constructor(layout: Layout, header: Bytes, cipher: RecordCipher) {
    this.layout = layout
    this.header = header
    this.#cipher = cipher
  }

  /** For a new page, with a key that was never used before. */
  static async sealing(key: Bytes, layout: Layout, derive = deriveSecrets): Promise<Records> {
    const start = concat([MAGIC, uint32(layout.recordBytes)])
    const prefix = concat([start, new Uint8Array(PREFIX_BYTES - start.length)])
    return Records.#derived(key, layout, prefix, derive)
  }

  /** For reading the page that begins with `header` and has `sealedBytes` bytes. */
  static async opening(key: Bytes, header: Bytes, sealedBytes: number, derive = deriveSecrets): Promise<Records> {
    if (!isSealed(header)) throw new PrivateError({ kind: 'not-private' })
    if (header.length !== HEADER_BYTES) throw new PrivateError({ kind: 'length', sealedBytes })
    const prefix = header.slice(0, PREFIX_BYTES)
    const recordBytes = new DataView(prefix.buffer).getUint32(MAGIC.length)
    const isKnown = isSameBytes(prefix.subarray(0, MAGIC.length), MAGIC) && prefix.subarray(MAGIC.length + 4).every((byte) => byte === 0)
    if (!isKnown || !isRecordBytes(recordBytes)) throw new PrivateError({ kind: 'version' })
    const records = await Records.#derived(key, Layout.ofSealed(sealedBytes, recordBytes), prefix, derive)
    if (!isSameBytes(records.header, header)) throw new PrivateError({ kind: 'wrong-key' })
    return records
  }

  static async #derived(key: Bytes, layout: Layout, prefix: Bytes, derive: DeriveSecrets): Promise<Records> {
    const { commitment, cipher } = await derive(key, prefix)
    return new Records(layout, concat([prefix, commitment]), cipher)
  }

  /** Encrypts the content of a record. */
  seal(record: number, content: Bytes): Promise<Bytes> {
    const { from, to } = this.layout.contentOf(record)
    if (content.length !== to - from) throw new Error(`record ${record} must have ${to - from} bytes`)
    return this.#cipher.seal(this.#nonce(record), content)
  }

  /** Decrypts a record. Rejects with a `PrivateError` if it was changed. */
  async open(record: number, sealed: Bytes): Promise<Bytes> {
    const { from, to } = this.layout.sealedOf(record)
    const isPossible = sealed.length === to - from && sealed.length > TAG_BYTES
    const content = isPossible ? await this.#cipher.open(this.#nonce(record), sealed) : null
    if (content === null) throw new PrivateError({ kind: 'changed', record })
    return content
  }

  /** Seven zeros, the number of the record, and whether it is the last, as in STREAM. */
  #nonce(record: number): Bytes {
    const isLast = record === this.layout.records - 1
    return concat([new Uint8Array(7), uint32(record), Uint8Array.of(isLast ? 1 : 0)])
  }
}
