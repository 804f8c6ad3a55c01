import { expect, it } from 'vitest'
import { murmur3 } from './murmur3.ts'

it.each([
  ['', 0n],
  ['hello', 0xcbd8_a7b3_41bd_9b02n],
  ['hello, world', 0x342f_ac62_3a5e_bc8en],
  ['The quick brown fox jumps over the lazy dog.', 0xcd99_481f_9ee9_02c9n],
])('the hash of %j is the published value', (text, hash) => {
  expect(murmur3(new TextEncoder().encode(text))).toBe(hash)
})
