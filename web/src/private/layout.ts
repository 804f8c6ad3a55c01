import { PrivateError } from './error.ts'

/** Ciphertext of a record: one leaf of the default profile. */
export const RECORD_BYTES = 1 << 20
export const RECORD_BYTES_MIN = 1 << 12
export const HEADER_BYTES = 64
export const TAG_BYTES = 16
/** Most bytes of content: what a number can count, and records can be numbered for. */
export const CONTENT_BYTES_MAX = 2 ** 50
const RECORDS_MAX = 2 ** 32
/** Content is never shorter: the size of a short text would tell much of it. */
const CONTENT_BYTES_MIN = 4096

/** The length that content is brought to: Padmé. It tells the order of magnitude and a few bits more. */
export function padded(bytes: number): number {
  if (bytes <= CONTENT_BYTES_MIN) return CONTENT_BYTES_MIN
  const exponent = bytes.toString(2).length - 1
  const step = 2 ** (exponent - exponent.toString(2).length)
  return Math.ceil(bytes / step) * step
}

/**
 * How content lies in records: the index, the files, and zeros up to a padded length. Record n begins at byte
 * n × `recordBytes` of the whole; the first one has the header in front.
 */
export class Layout {
  readonly recordBytes: number
  /** Padding included. */
  readonly contentBytes: number
  readonly records: number
  /** Bytes of the whole: header, content and tags. */
  readonly sealedBytes: number

  private constructor(recordBytes: number, contentBytes: number) {
    this.recordBytes = recordBytes
    this.contentBytes = contentBytes
    this.records = 1 + Math.ceil(Math.max(0, contentBytes - this.#first) / this.#other)
    this.sealedBytes = contentBytes + HEADER_BYTES + this.records * TAG_BYTES
  }

  /** For content of so many bytes before padding. */
  static ofContent(bytes: number, recordBytes = RECORD_BYTES): Layout {
    if (bytes > CONTENT_BYTES_MAX) throw new PrivateError({ kind: 'too-large' })
    const layout = new Layout(recordBytes, padded(bytes))
    if (layout.records > RECORDS_MAX) throw new PrivateError({ kind: 'too-large' })
    return layout
  }

  /** That of a whole of so many bytes. */
  static ofSealed(sealedBytes: number, recordBytes: number): Layout {
    const refused = new PrivateError({ kind: 'length', sealedBytes })
    const records = Math.ceil(sealedBytes / recordBytes)
    const contentBytes = sealedBytes - HEADER_BYTES - records * TAG_BYTES
    // Every length of content is that of one whole: others would be one with a part missing.
    if (contentBytes < CONTENT_BYTES_MIN || contentBytes > padded(CONTENT_BYTES_MAX)) throw refused
    const layout = new Layout(recordBytes, contentBytes)
    if (padded(contentBytes) !== contentBytes || layout.records !== records || records > RECORDS_MAX) throw refused
    return layout
  }

  /** From which byte of the content to which a record goes. */
  contentOf(record: number): { from: number; to: number } {
    const from = record === 0 ? 0 : this.#first + (record - 1) * this.#other
    return { from, to: Math.min(this.#first + record * this.#other, this.contentBytes) }
  }

  /** The record that has this byte of the content. */
  recordAt(offset: number): number {
    return offset < this.#first ? 0 : 1 + Math.floor((offset - this.#first) / this.#other)
  }

  /** From which byte of the whole to which the ciphertext of a record goes, tag included and header left out. */
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
