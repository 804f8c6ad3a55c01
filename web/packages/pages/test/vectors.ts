import { readFileSync } from 'node:fs'
import type { Bytes } from '../src/content/bytes.ts'

/** Reads a file of `tests/vectors`, which the Rust tests read too. For tests only. */
export function readVectors<Shape>(name: string): Shape {
  return JSON.parse(readFileSync(new URL(`../../../../tests/vectors/${name}`, import.meta.url), 'utf8')) as Shape
}

export function fromHex(hex: string): Bytes {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
}
