const MASK = 0xffff_ffff_ffff_ffffn
const C1 = 0x87c3_7b91_1142_53d5n
const C2 = 0x4cf5_ad43_2745_937fn

const times = (a: bigint, b: bigint) => (a * b) & MASK
const plus = (a: bigint, b: bigint) => (a + b) & MASK
const rotate = (a: bigint, by: bigint) => ((a << by) | (a >> (64n - by))) & MASK
const mix1 = (k: bigint) => times(rotate(times(k, C1), 31n), C2)
const mix2 = (k: bigint) => times(rotate(times(k, C2), 33n), C1)

/**
 * The first 64 bits of MurmurHash3 x64 128, seed 0. UnixFS uses it to shard the names of large directories. It is not a
 * cryptographic hash: names with the same hash are easy to find.
 */
export function murmur3(bytes: Uint8Array): bigint {
  // Zeros mix to zeros, so padding the tail with zeros gives the defined result.
  const padded = new Uint8Array(Math.floor(bytes.length / 16) * 16 + 16)
  padded.set(bytes)
  const view = new DataView(padded.buffer)
  const tail = padded.length - 16
  let h1 = 0n
  let h2 = 0n
  for (let at = 0; at < tail; at += 16) {
    h1 = plus(rotate(h1 ^ mix1(view.getBigUint64(at, true)), 27n), h2)
    h1 = plus(times(h1, 5n), 0x52dc_e729n)
    h2 = plus(rotate(h2 ^ mix2(view.getBigUint64(at + 8, true)), 31n), h1)
    h2 = plus(times(h2, 5n), 0x3849_5ab5n)
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
