/** Eight tables, so that eight bytes are processed per step. */
const TABLES: readonly Int32Array[] = makeTables()

/** CRC-32 as zip uses it, over chunks: pass the previous result, 0 at first. */
export function crc32(bytes: Uint8Array, before = 0): number {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = TABLES as [
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
  ]
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let crc = ~before
  let at = 0
  for (; at + 8 <= bytes.length; at += 8) {
    const low = view.getInt32(at, true) ^ crc
    const high = view.getInt32(at + 4, true)
    crc =
      entry(t7, low & 0xff) ^
      entry(t6, (low >>> 8) & 0xff) ^
      entry(t5, (low >>> 16) & 0xff) ^
      entry(t4, low >>> 24) ^
      entry(t3, high & 0xff) ^
      entry(t2, (high >>> 8) & 0xff) ^
      entry(t1, (high >>> 16) & 0xff) ^
      entry(t0, high >>> 24)
  }
  for (; at < bytes.length; at++) crc = (crc >>> 8) ^ entry(t0, (crc ^ view.getUint8(at)) & 0xff)
  return ~crc >>> 0
}

function entry(table: Int32Array, at: number): number {
  return table[at] as number
}

function makeTables(): Int32Array[] {
  const first = new Int32Array(256)
  for (let n = 0; n < 256; n++) {
    let crc = n
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
    first[n] = crc
  }
  const tables = [first]
  for (let i = 1; i < 8; i++) {
    const before = tables[i - 1] ?? first
    tables.push(before.map((crc) => (crc >>> 8) ^ entry(first, crc & 0xff)))
  }
  return tables
}
