import { concat, textOf, utf8, type Bytes } from '../content/index.ts'
import { LiveError } from './error.ts'

/** The longest node of an entry in bytes. */
export const NODE_BYTES_MAX = 4096
/** The longest title of a page, and the longest name of an entry, in bytes. */
export const NAME_BYTES_MAX = 255

const MAGIC = utf8('watchfire live 1')

/** The kinds of nodes. */
export const BEGINNING = 0
export const ENTRY = 1

/** Throws unless `bytes` begin with these magic bytes. Their last character is a version. */
export function checkMagic(bytes: Bytes, magic: Bytes): void {
  const unversioned = magic.length - 1
  if (bytes.length < magic.length || magic.subarray(0, unversioned).some((byte, i) => byte !== bytes[i])) {
    throw new LiveError('NotLive')
  }
  if (bytes[unversioned] !== magic[unversioned]) throw new LiveError('UnsupportedVersion')
}

/** Reads the data of a node: numbers, bytes and a name, one after another. */
export class FieldReader {
  readonly #data: Bytes
  #at = MAGIC.length

  constructor(data: Bytes, kind: number) {
    checkMagic(data, MAGIC)
    this.#data = data
    if (this.uint8() !== kind) throw new LiveError('NotLive')
  }

  bytes(length: number): Bytes {
    const end = this.#at + length
    if (end > this.#data.length) throw new LiveError('Truncated')
    const bytes = this.#data.slice(this.#at, end)
    this.#at = end
    return bytes
  }

  uint8(): number {
    return this.#view(1).getUint8(0)
  }

  uint32(): number {
    return this.#view(4).getUint32(0)
  }

  /** A number of 8 bytes; those above 2^53 lose their lowest bits. */
  uint64(): number {
    return Number(this.#view(8).getBigUint64(0))
  }

  /** The name, which ends the data. */
  name(): string {
    const length = this.#view(2).getUint16(0)
    if (length > NAME_BYTES_MAX) throw new LiveError('NameTooLong')
    const bytes = this.bytes(length)
    if (this.#at < this.#data.length) throw new LiveError('TrailingBytes')
    const name = textOf(bytes)
    if (name === null) throw new LiveError('NotUtf8')
    return name
  }

  #view(length: number): DataView {
    return new DataView(this.bytes(length).buffer)
  }
}

/** The data of a node: the magic bytes, its kind, its fields, and a name. */
export function writeFields(kind: number, fields: readonly Bytes[], name: string): Bytes {
  const text = utf8(name)
  if (text.length > NAME_BYTES_MAX) throw new LiveError('NameTooLong')
  return concat([MAGIC, Uint8Array.of(kind), ...fields, Uint8Array.of(text.length >> 8, text.length & 255), text])
}
