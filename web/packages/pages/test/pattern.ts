import type { Bytes } from '../src/content/bytes.ts'

/** Content for tests, the same as in all vectors: byte i is i mod 251. */
export function pattern(size: number, from = 0): Bytes {
  const bytes = new Uint8Array(size)
  for (let i = 0; i < size; i++) bytes[i] = (from + i) % 251
  return bytes
}
