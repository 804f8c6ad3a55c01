/**
 * The first 64 bits of MurmurHash3 x64 128, seed 0. UnixFS uses it to shard the names of large directories. It is not a
 * cryptographic hash: names with the same hash are easy to find.
 */
export function murmur3(bytes: Uint8Array): bigint {
  // Zeros mix to zeros, so padding the tail with zeros gives the defined result.
  const padded = new Uint8Array(Math.floor(bytes.length / 16) * 16 + 16)
  padded.set(bytes)
  const view = new DataView(padded.buffer)
  const first = (at: number) => mix(view.getBigUint64(at, true), C1, 31n, C2)
  const second = (at: number) => mix(view.getBigUint64(at + 8, true), C2, 33n, C1)
  const tail = padded.length - 16
  let h1 = 0n
  let h2 = 0n
  for (let at = 0; at < tail; at += 16) {
    h1 = word((rotate(h1 ^ first(at), 27n) + h2) * 5n + 0x52dc_e729n)
    h2 = word((rotate(h2 ^ second(at), 31n) + h1) * 5n + 0x3849_5ab5n)
  }
  const length = BigInt(bytes.length)
  h1 ^= first(tail) ^ length
  h2 ^= second(tail) ^ length
  h1 = word(h1 + h2)
  h2 = word(h2 + h1)
  return word(avalanche(h1) + avalanche(h2))
}

const C1 = 0x87c3_7b91_1142_53d5n
const C2 = 0x4cf5_ad43_2745_937fn

/** The lowest 64 bits. Engines do this much faster than `&` with a mask. */
const word = (value: bigint) => BigInt.asUintN(64, value)

function rotate(value: bigint, by: bigint): bigint {
  return word(value << by) | (value >> (64n - by))
}

function mix(key: bigint, before: bigint, by: bigint, after: bigint): bigint {
  return word(rotate(word(key * before), by) * after)
}

function avalanche(key: bigint): bigint {
  for (const factor of [0xff51_afd7_ed55_8ccdn, 0xc4ce_b9fe_1a85_ec53n]) key = word((key ^ (key >> 33n)) * factor)
  return key ^ (key >> 33n)
}
