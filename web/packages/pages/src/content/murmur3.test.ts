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

it('is the same as with exact numbers, for names of every length', () => {
  for (let length = 0; length < 70; length++) {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 151 + length * 7) & 0xff)
    expect(murmur3(bytes)).toBe(exact(bytes))
  }
})

const MASK = 0xffff_ffff_ffff_ffffn
const times = (a: bigint, b: bigint) => (a * b) & MASK
const plus = (a: bigint, b: bigint) => (a + b) & MASK
const rotate = (a: bigint, by: bigint) => ((a << by) | (a >> (64n - by))) & MASK
const [C1, C2] = [0x87c3_7b91_1142_53d5n, 0x4cf5_ad43_2745_937fn]
const mix1 = (k: bigint) => times(rotate(times(k, C1), 31n), C2)
const mix2 = (k: bigint) => times(rotate(times(k, C2), 33n), C1)

/** MurmurHash3 as it is published, with numbers of 64 bits. */
function exact(bytes: Uint8Array): bigint {
  const padded = new Uint8Array(Math.floor(bytes.length / 16) * 16 + 16)
  padded.set(bytes)
  const view = new DataView(padded.buffer)
  const tail = padded.length - 16
  let h1 = 0n
  let h2 = 0n
  for (let at = 0; at < tail; at += 16) {
    h1 = plus(times(plus(rotate(h1 ^ mix1(view.getBigUint64(at, true)), 27n), h2), 5n), 0x52dc_e729n)
    h2 = plus(times(plus(rotate(h2 ^ mix2(view.getBigUint64(at + 8, true)), 31n), h1), 5n), 0x3849_5ab5n)
  }
  h1 ^= mix1(view.getBigUint64(tail, true)) ^ BigInt(bytes.length)
  h2 ^= mix2(view.getBigUint64(tail + 8, true)) ^ BigInt(bytes.length)
  h1 = plus(h1, h2)
  h2 = plus(h2, h1)
  return plus(avalanche(h1), avalanche(h2))
}

function avalanche(key: bigint): bigint {
  let k = times(key ^ (key >> 33n), 0xff51_afd7_ed55_8ccdn)
  k = times(k ^ (k >> 33n), 0xc4ce_b9fe_1a85_ec53n)
  return k ^ (k >> 33n)
}
