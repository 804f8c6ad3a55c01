// Things to share, made here rather than kept as files.

import { crc32, deflateSync } from 'node:zlib'

/** A PNG of that size whose pixels are a gradient, or noise of a seed when it shall not compress. */
export function picture(width, height, { noise = null } = {}) {
  const rows = Buffer.alloc(height * (1 + width * 3))
  let state = noise ?? 1
  for (let y = 0, at = 0; y < height; y += 1) {
    rows[at++] = 0
    for (let x = 0; x < width; x += 1) {
      const colour = noise === null ? [200 - y, 90 + x, 40] : [(state = next(state)) >>> 24, state >>> 16, state >>> 8]
      for (const part of colour) rows[at++] = part & 0xff
    }
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', head),
    chunk('IDAT', deflateSync(rows, { level: noise === null ? 6 : 0 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** A sound: one second of a tone, as WAV. */
export function sound() {
  const rate = 8000
  const samples = Buffer.alloc(rate)
  for (let i = 0; i < rate; i += 1) samples[i] = 128 + 60 * Math.sin((i * 440 * 2 * Math.PI) / rate)
  const head = Buffer.alloc(44)
  head.write('RIFF', 0)
  head.writeUInt32LE(36 + samples.length, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(rate, 28)
  head.writeUInt16LE(1, 32)
  head.writeUInt16LE(8, 34)
  head.write('data', 36)
  head.writeUInt32LE(samples.length, 40)
  return Buffer.concat([head, samples])
}

/** The generated files of the shared vectors: byte i is i mod 251. */
export function generated(bytes) {
  const period = Buffer.from(Array.from({ length: 251 }, (_, i) => i))
  return Buffer.alloc(bytes, period)
}

/** A file to choose in a file dialogue. */
export function file(name, content, mimeType = 'application/octet-stream') {
  return { name, mimeType, buffer: Buffer.from(content) }
}

function chunk(name, content) {
  const named = Buffer.concat([Buffer.from(name, 'latin1'), content])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length)
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(named))
  return Buffer.concat([length, named, sum])
}

/** A step of xorshift. */
function next(state) {
  state ^= state << 13
  state ^= state >>> 17
  return (state ^ (state << 5)) >>> 0
}
