import { PrivateError } from './error.ts'

/** Ciphertext bytes of a record: one leaf of the default profile. */
export const RECORD_BYTES = 1 << 20
export const RECORD_BYTES_MIN = 1 << 12
export const HEADER_BYTES = 64
export const TAG_BYTES = 16
/** Bytes of content at most. Record numbers must stay within their limit. */
export const CONTENT_BYTES_MAX = 2 ** 50
const RECORDS_MAX = 2 ** 32
/** Shorter content is padded to this, because the length of a short text would reveal much about it. */
const CONTENT_BYTES_MIN = 4096

/** The padded length, by the Padmé scheme. It reveals the order of magnitude and a few bits more. */
export function padded(bytes: number): number {
  if (bytes <= CONTENT_BYTES_MIN) return CONTENT_BYTES_MIN
  const exponent = bytes.toString(2).length - 1
  const step = 2 ** (exponent - exponent.toString(2).length)
  return Math.ceil(bytes / step) * step
}

/**
 * The split of content into records: the index, the files, and zeros up to the padded length. Record n begins at byte n
 * × `recordBytes` of the page. The first record has the header before it.
 */
export class Layout {
  readonly recordBytes: number
  /** Including padding. */
  readonly contentBytes: number
  readonly records: number
  /** Bytes of the page: header, content and tags. */
  readonly sealedBytes: number

  private constructor(recordBytes: number, contentBytes: number) {
    this.recordBytes = recordBytes
    this.contentBytes = contentBytes
    this.records = 1 + Math.ceil(Math.max(0, contentBytes - this.#first) / this.#other)
    this.sealedBytes = contentBytes + HEADER_BYTES + this.records * TAG_BYTES
  }

  /** The layout for content of this many bytes before padding. */
  static ofContent(bytes: number, recordBytes = RECORD_BYTES): Layout {
    if (bytes > CONTENT_BYTES_MAX) throw new PrivateError({ kind: 'too-large' })
    const layout = new Layout(recordBytes, padded(bytes))
    if (layout.records > RECORDS_MAX) throw new PrivateError({ kind: 'too-large' })
    return layout
  }

  /** The layout of a page of this many bytes. */
  static ofSealed(sealedBytes: number, recordBytes: number): Layout {
    const refused = new PrivateError({ kind: 'length', sealedBytes })
    const records = Math.ceil(sealedBytes / recordBytes)
    const contentBytes = sealedBytes - HEADER_BYTES - records * TAG_BYTES
    // Only some lengths are valid. Any other length means that a part is missing.
    if (contentBytes < CONTENT_BYTES_MIN || contentBytes > padded(CONTENT_BYTES_MAX)) throw refused
    const layout = new Layout(recordBytes, contentBytes)
    if (padded(contentBytes) !== contentBytes || layout.records !== records || records > RECORDS_MAX) throw refused
    return layout
  }

  /** The range of the content that a record contains. */
  contentOf(record: number): { from: number; to: number } {
    const from = record === 0 ? 0 : this.#first + (record - 1) * this.#other
    return { from, to: Math.min(this.#first + record * this.#other, this.contentBytes) }
  }

  /** The record with this byte of the content. */
  recordAt(offset: number): number {
    return offset < this.#first ? 0 : 1 + Math.floor((offset - this.#first) / this.#other)
  }

  /** The range of the page that has a record's ciphertext, including the tag and without the header. */
  sealedOf(record: number): { from: number; to: number } {
    const from = record === 0 ? HEADER_BYTES : record * this.recordBytes
    return { from, to: Math.min((record + 1) * this.recordBytes, this.sealedBytes) }
  }

  get #first(): number {
    return this.#other - HEADER_BYTES
  }

  get #other(): number {
    return this.recordBytes - TAG_BYTES
  }
}

export function isRecordBytes(bytes: number): boolean {
  return bytes >= RECORD_BYTES_MIN && bytes <= RECORD_BYTES && (bytes & (bytes - 1)) === 0
}
