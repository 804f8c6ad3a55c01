import type { Bytes } from './bytes.ts'
import { malformed } from './error.ts'

/** Encodes unsigned varints, as in multiformats and protobuf. */
export function encodeVarints(...values: readonly number[]): Bytes {
  const bytes: number[] = []
  for (let rest of values) {
    while (rest >= 0x80) {
      bytes.push((rest % 0x80) | 0x80)
      rest = Math.floor(rest / 0x80)
    }
    bytes.push(rest)
  }
  return Uint8Array.from(bytes)
}

/** Reads an unsigned varint below 2^53. Only the shortest form is valid in multiformats. */
export function decodeVarint(bytes: Uint8Array, offset: number): { value: number; next: number } {
  let value = 0
  let scale = 1
  for (let at = offset; at < bytes.length && at < offset + 8; at++) {
    const byte = bytes[at] ?? 0
    value += (byte & 0x7f) * scale
    if (byte < 0x80) {
      if (byte === 0 && at > offset) throw malformed('numberLong')
      if (!Number.isSafeInteger(value)) throw malformed('numberRange')
      return { value, next: at + 1 }
    }
    scale *= 0x80
  }
  throw malformed('numberEndless')
}
