import { concat, type Bytes } from './bytes.ts'
import { malformed } from './error.ts'
import { encodeVarints } from './varint.ts'

const VARINT = 0
const FIXED64 = 1
const LENGTH_DELIMITED = 2
const FIXED32 = 5

/** A field of a protobuf message: its number, and its value by wire type. */
export interface Field {
  readonly number: number
  readonly wire: number
  /** The value of a varint field, exact up to 2^53. 0 for other fields. */
  readonly value: number
  /** The low 32 bits of a varint field, signed: an `int32`. */
  readonly int32: number
  /** The value of a length-delimited or fixed-width field, as a view. Empty for a varint field. */
  readonly bytes: Bytes
}

const NO_BYTES: Bytes = new Uint8Array()

/**
 * Iterates over the fields of a message. Nothing reads fixed-width fields, because no format here uses them. Groups are
 * rejected.
 */
export function* decodeFields(bytes: Bytes): Generator<Field, void> {
  let at = 0
  const varint = (): { value: number; int32: number } => {
    let value = 0
    let int32 = 0
    for (let i = 0; i < 10; i++) {
      const byte = bytes[at++]
      if (byte === undefined) throw malformed('fieldCut')
      value += (byte & 0x7f) * 2 ** (7 * i)
      if (i < 5) int32 |= (byte & 0x7f) << (7 * i)
      if (byte < 0x80) return { value, int32 }
    }
    throw malformed('numberEndless')
  }
  const take = (length: number): Bytes => {
    if (length > bytes.length - at) throw malformed('fieldCut')
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const key = varint().value
    const number = Math.floor(key / 8)
    if (number === 0 || number > 0x1fff_ffff) throw malformed('fieldNumber')
    const wire = key % 8
    if (wire === VARINT) {
      yield { number, wire, ...varint(), bytes: NO_BYTES }
    } else if (wire === LENGTH_DELIMITED) {
      yield { number, wire, value: 0, int32: 0, bytes: take(varint().value) }
    } else if (wire === FIXED64 || wire === FIXED32) {
      yield { number, wire, value: 0, int32: 0, bytes: take(wire === FIXED64 ? 8 : 4) }
    } else {
      throw malformed('fieldTypeUnknown')
    }
  }
}

/** The bytes of a field. Throws if it is not length-delimited. */
export function bytesOf(field: Field): Bytes {
  if (field.wire !== LENGTH_DELIMITED) throw malformed('fieldTypeWrong')
  return field.bytes
}

/** The value of a field. Throws if it is not a whole number from 0 below 2^53. */
export function uintOf(field: Field): number {
  if (field.wire !== VARINT) throw malformed('fieldTypeWrong')
  if (!Number.isSafeInteger(field.value)) throw malformed('numberRange')
  return field.value
}

export function int32Of(field: Field): number {
  if (field.wire !== VARINT) throw malformed('fieldTypeWrong')
  return field.int32
}

/** The numbers of a packed field. */
export function* decodePacked(bytes: Bytes): Generator<number, void> {
  let value = 0
  let shift = 0
  for (const byte of bytes) {
    value += (byte & 0x7f) * 2 ** shift
    shift += 7
    if (byte >= 0x80) {
      if (shift >= 70) throw malformed('numberEndless')
      continue
    }
    if (!Number.isSafeInteger(value)) throw malformed('numberRange')
    yield value
    value = 0
    shift = 0
  }
  if (shift > 0) throw malformed('numberEndless')
}

/** Encodes a message. Long fields are not copied before `finish`. */
export class MessageWriter {
  readonly #parts: Uint8Array[] = []
  #length = 0

  uint(field: number, value: number): this {
    return this.#add(encodeVarints(field * 8 + VARINT, value))
  }

  /** Encodes an `int32`. A negative number takes ten bytes, as protobuf requires. */
  int32(field: number, value: number): this {
    if (value >= 0) return this.uint(field, value)
    const low = encodeVarints(field * 8 + VARINT, value >>> 0)
    // The bits above the low 32 are ones.
    return this.#add(low.map((byte, i) => (i === low.length - 1 ? byte | 0xf0 : byte))).#add(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x01))
  }

  bytes(field: number, value: Uint8Array): this {
    return this.#head(field, value.length).#add(value)
  }

  message(field: number, value: MessageWriter): this {
    this.#head(field, value.#length)
    for (const part of value.#parts) this.#add(part)
    return this
  }

  finish(): Bytes {
    return concat(this.#parts)
  }

  #head(field: number, length: number): this {
    return this.#add(encodeVarints(field * 8 + LENGTH_DELIMITED, length))
  }

  #add(part: Uint8Array): this {
    this.#parts.push(part)
    this.#length += part.length
    return this
  }
}
