/**
 * The first 64 bits of MurmurHash3 x64 128, seed 0. UnixFS uses it to shard the names of large directories. It is not a
 * cryptographic hash: names with the same hash are easy to find.
 */
export function murmur3(bytes: Uint8Array): bigint {
  // Zeros mix to zeros, so padding the tail with zeros gives the defined result.
  const padded = new Uint8Array(Math.floor(bytes.length / 16) * 16 + 16)
  padded.set(bytes)
  const view = new DataView(padded.buffer)
  const wordAt = (at: number) => new Word(view.getUint32(at + 4, true), view.getUint32(at, true))
  const tail = padded.length - 16
  const h1 = new Word(0, 0)
  const h2 = new Word(0, 0)
  for (let at = 0; at < tail; at += 16) {
    h1.xor(mix(wordAt(at), C1, 31, C2))
    h1.rotate(27)
    h1.add(h2)
    h1.multiply(FIVE)
    h1.add(N1)
    h2.xor(mix(wordAt(at + 8), C2, 33, C1))
    h2.rotate(31)
    h2.add(h1)
    h2.multiply(FIVE)
    h2.add(N2)
  }
  const length = new Word(0, bytes.length)
  h1.xor(mix(wordAt(tail), C1, 31, C2))
  h1.xor(length)
  h2.xor(mix(wordAt(tail + 8), C2, 33, C1))
  h2.xor(length)
  h1.add(h2)
  h2.add(h1)
  avalanche(h1)
  avalanche(h2)
  h1.add(h2)
  return (BigInt(h1.high) << 32n) | BigInt(h1.low)
}

/** A number of 64 bits in two halves of 32 bits. A folder has thousands of names, and `bigint` takes several times longer. */
class Word {
  high: number
  low: number

  constructor(high: number, low: number) {
    this.high = high
    this.low = low
  }

  add({ high, low }: Word): void {
    const sum = this.low + low
    this.high = (this.high + high + (sum > 0xffff_ffff ? 1 : 0)) >>> 0
    this.low = sum >>> 0
  }

  xor({ high, low }: Word): void {
    this.high = (this.high ^ high) >>> 0
    this.low = (this.low ^ low) >>> 0
  }

  /** Rotates to the left, by 1 to 63 bits but not by 32. */
  rotate(by: number): void {
    const [high, low] = by < 32 ? [this.high, this.low] : [this.low, this.high]
    const bits = by % 32
    this.high = ((high << bits) | (low >>> (32 - bits))) >>> 0
    this.low = ((low << bits) | (high >>> (32 - bits))) >>> 0
  }

  multiply({ high, low }: Word): void {
    // Of the other factor's low half, the upper and the lower 16 bits: both products are exact.
    const upper = this.low * (low >>> 16)
    const lower = this.low * (low & 0xffff) + (upper % 0x1_0000) * 0x1_0000
    const carried = Math.floor(upper / 0x1_0000) + Math.floor(lower / 0x1_0000_0000)
    this.high = (carried + Math.imul(this.high, low) + Math.imul(this.low, high)) >>> 0
    this.low = lower >>> 0
  }
}

const C1 = new Word(0x87c3_7b91, 0x1142_53d5)
const C2 = new Word(0x4cf5_ad43, 0x2745_937f)
const FIVE = new Word(0, 5)
const N1 = new Word(0, 0x52dc_e729)
const N2 = new Word(0, 0x3849_5ab5)
const A1 = new Word(0xff51_afd7, 0xed55_8ccd)
const A2 = new Word(0xc4ce_b9fe, 0x1a85_ec53)

function mix(k: Word, before: Word, by: number, after: Word): Word {
  k.multiply(before)
  k.rotate(by)
  k.multiply(after)
  return k
}

function avalanche(key: Word): void {
  for (const factor of [A1, A2]) {
    foldHigh(key)
    key.multiply(factor)
  }
  foldHigh(key)
}

/** `key ^= key >> 33`. */
function foldHigh(key: Word): void {
  key.low = (key.low ^ (key.high >>> 1)) >>> 0
}
