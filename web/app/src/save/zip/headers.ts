import type { Bytes } from '@watchfire/pages/content'

// The records of a zip file whose members are streamed (PKWARE APPNOTE 6.3). The CRC of a member is known only at its end, so it is in a
// data descriptor there. A program that reads from the start, such as Java's ZipInputStream, must find that end by the data alone. So
// the data is in blocks of DEFLATE that are stored uncompressed (RFC 1951, 3.2.4), the last of which says so. Numbers that do not fit
// into their 32-bit or 16-bit field are in a zip64 record.

/** A member, with what its header contains. */
export interface Member {
  /** Its path in UTF-8. */
  readonly name: Uint8Array
  readonly size: number
  readonly at: Date
}

/** A member that has been written. */
export interface Written extends Member {
  readonly crc: number
  /** Offset of its header. */
  readonly offset: number
}

/** The value of a 32-bit or 16-bit field whose real value is in a zip64 record. */
const TOO_LARGE = 0xffff_ffff
const TOO_MANY = 0xffff
/** Names are UTF-8 (bit 11); sizes and CRC are in the data descriptor (bit 3). */
const FLAGS = 0x0808
const DEFLATE = 8
/** The longest stored block, and the bytes before each. */
const BLOCK_BYTES_MAX = 0xffff
const BLOCK_HEAD_BYTES = 5
const VERSION = 20
const VERSION_ZIP64 = 45
/** Created on Unix: a regular file, rw-r--r--. */
const MADE_BY = 3 << 8
const MODE = (0o100644 << 16) >>> 0

export function memberHeader({ name, size, at }: Member): Bytes {
  const zip64 = isLarge(packedSize(size))
  const extra = zip64 ? new Record(20).u16(1).u16(16).u64(0).u64(0).bytes : NOTHING
  const record = new Record(30 + name.length + extra.length)
  record
    .u32(0x04034b50)
    .u16(zip64 ? VERSION_ZIP64 : VERSION)
    .u16(FLAGS)
    .u16(DEFLATE)
    .time(at)
    .u32(0)
  const stated = zip64 ? TOO_LARGE : 0
  return record.u32(stated).u32(stated).u16(name.length).u16(extra.length).put(name).put(extra).bytes
}

/** The data descriptor after a member. */
export function descriptor({ size, crc }: { size: number; crc: number }): Bytes {
  const packed = packedSize(size)
  return isLarge(packed)
    ? new Record(24).u32(0x08074b50).u32(crc).u64(packed).u64(size).bytes
    : new Record(16).u32(0x08074b50).u32(crc).u32(packed).u32(size).bytes
}

/** A member's entry in the central directory. */
export function directoryEntry({ name, size, at, crc, offset }: Written): Bytes {
  const packed = packedSize(size)
  const large = [...(isLarge(packed) ? [size, packed] : []), ...(isLarge(offset) ? [offset] : [])]
  const extra =
    large.length === 0
      ? NOTHING
      : large.reduce((record, n) => record.u64(n), new Record(4 + 8 * large.length).u16(1).u16(8 * large.length)).bytes
  const version = large.length > 0 ? VERSION_ZIP64 : VERSION
  const record = new Record(46 + name.length + extra.length)
  record
    .u32(0x02014b50)
    .u16(MADE_BY | version)
    .u16(version)
    .u16(FLAGS)
    .u16(DEFLATE)
    .time(at)
    .u32(crc)
    .u32(isLarge(packed) ? TOO_LARGE : packed)
    .u32(isLarge(packed) ? TOO_LARGE : size)
  record
    .u16(name.length)
    .u16(extra.length)
    .u16(0)
    .u16(0)
    .u16(0)
    .u32(MODE)
    .u32(isLarge(offset) ? TOO_LARGE : offset)
  return record.put(name).put(extra).bytes
}

/** The end of the central directory: its member count, length and offset. */
export function directoryEnd(members: number, bytes: number, offset: number): Bytes {
  const zip64 = members >= TOO_MANY || isLarge(bytes) || isLarge(offset)
  const record = new Record(zip64 ? 56 + 20 + 22 : 22)
  if (zip64) {
    record
      .u32(0x06064b50)
      .u64(44)
      .u16(MADE_BY | VERSION_ZIP64)
      .u16(VERSION_ZIP64)
      .u32(0)
      .u32(0)
    record.u64(members).u64(members).u64(bytes).u64(offset)
    record
      .u32(0x07064b50)
      .u32(0)
      .u64(offset + bytes)
      .u32(1)
  }
  const count = Math.min(members, TOO_MANY)
  record.u32(0x06054b50).u16(0).u16(0).u16(count).u16(count)
  return record.u32(Math.min(bytes, TOO_LARGE)).u32(Math.min(offset, TOO_LARGE)).u16(0).bytes
}

/** The length of a member's blocks. An empty member has one block. */
export function packedSize(size: number): number {
  return size + BLOCK_HEAD_BYTES * Math.max(1, Math.ceil(size / BLOCK_BYTES_MAX))
}

/** The head of a block. */
export function blockHead(length: number, isLast: boolean): Bytes {
  return new Record(BLOCK_HEAD_BYTES)
    .u8(isLast ? 1 : 0)
    .u16(length)
    .u16(~length & 0xffff).bytes
}

/** The bytes of a member of this size from `at` on, and the head of each block that begins in them. */
export function* inBlocks(bytes: Bytes, at: number, size: number): Generator<Bytes, void> {
  for (let from = 0; from < bytes.length; ) {
    const inBlock = (at + from) % BLOCK_BYTES_MAX
    const left = size - at - from
    if (inBlock === 0) yield blockHead(Math.min(BLOCK_BYTES_MAX, left), left <= BLOCK_BYTES_MAX)
    const piece = bytes.subarray(from, from + BLOCK_BYTES_MAX - inBlock)
    yield piece
    from += piece.length
  }
}

/** The length of the whole file. */
export function zipSize(members: readonly { name: Uint8Array; size: number }[]): number {
  let offset = 0
  let directory = 0
  for (const { name, size } of members) {
    const packed = packedSize(size)
    const large = (isLarge(packed) ? 2 : 0) + (isLarge(offset) ? 1 : 0)
    directory += 46 + name.length + (large > 0 ? 4 + 8 * large : 0)
    offset += 30 + name.length + (isLarge(packed) ? 20 + 24 : 16) + packed
  }
  const zip64 = members.length >= TOO_MANY || isLarge(directory) || isLarge(offset)
  return offset + directory + (zip64 ? 56 + 20 + 22 : 22)
}

function isLarge(n: number): boolean {
  return n >= TOO_LARGE
}

const NOTHING: Bytes = new Uint8Array()

/** Little-endian numbers, one after the other. */
class Record {
  readonly bytes: Bytes
  readonly #view: DataView
  #at = 0

  constructor(length: number) {
    this.bytes = new Uint8Array(length)
    this.#view = new DataView(this.bytes.buffer)
  }

  u8(n: number): this {
    this.#view.setUint8(this.#at++, n)
    return this
  }

  u16(n: number): this {
    this.#view.setUint16(this.#at, n, true)
    this.#at += 2
    return this
  }

  u32(n: number): this {
    this.#view.setUint32(this.#at, n, true)
    this.#at += 4
    return this
  }

  u64(n: number): this {
    this.#view.setBigUint64(this.#at, BigInt(n), true)
    this.#at += 8
    return this
  }

  /** DOS time has a resolution of two seconds and starts in 1980. */
  time(at: Date): this {
    const year = Math.min(Math.max(at.getFullYear(), 1980), 2107)
    this.u16((at.getHours() << 11) | (at.getMinutes() << 5) | (at.getSeconds() >> 1))
    return this.u16(((year - 1980) << 9) | ((at.getMonth() + 1) << 5) | at.getDate())
  }

  put(bytes: Uint8Array): this {
    this.bytes.set(bytes, this.#at)
    this.#at += bytes.length
    return this
  }
}
