// Files to share, generated instead of stored.

import { createHash } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'

/** A PNG of that size: a landscape, or seeded noise when it must not compress. */
export function picture(width, height, { noise = null } = {}) {
  const paint = noise === null ? dusk(width, height) : noiseOf(noise)
  const rows = Buffer.alloc(height * (1 + width * 3))
  for (let y = 0, at = 0; y < height; y += 1) {
    rows[at++] = 0
    for (let x = 0; x < width; x += 1) for (const part of paint(x, y)) rows[at++] = part & 0xff
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', head),
    chunk('IDAT', deflateSync(rows, { level: noise === null ? 9 : 0 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** The colour of each pixel of the landscape: bands of sky, a sun, three hills. */
function dusk(width, height) {
  const hills = [
    { at: 0.62, high: 0.1, waves: 5, shift: 1, colour: [94, 58, 84] },
    { at: 0.74, high: 0.09, waves: 8, shift: 4, colour: [58, 38, 66] },
    { at: 0.88, high: 0.07, waves: 6, shift: 2, colour: [30, 22, 42] },
  ]
  const sun = { x: width * 0.68, y: height * 0.56, size: height * 0.13 }
  return (x, y) => {
    let colour = [255 - 5 * Math.floor((18 * (height - y)) / height), 120 + 6 * Math.floor((14 * y) / height), 92]
    if (Math.hypot(x - sun.x, y - sun.y) < sun.size) colour = [255, 226, 150]
    for (const { at, high, waves, shift, colour: hill } of hills) {
      const turn = (x / width) * waves + shift
      if (y > height * (at - high * (Math.sin(turn) + 0.4 * Math.sin(2.3 * turn)))) colour = hill
    }
    return colour
  }
}

function noiseOf(seed) {
  let state = seed
  return () => {
    state = next(state)
    return [state >>> 24, state >>> 16, state >>> 8]
  }
}

/** One second of a tone, as a WAV file. */
export function sound() {
  const rate = 8000
  const samples = Buffer.alloc(rate)
  for (let i = 0; i < rate; i += 1) samples[i] = 128 + 60 * Math.sin((i * 440 * 2 * Math.PI) / rate)
  return wav(samples, { rate, channels: 1, bits: 8 })
}

/** A WAV file of these samples. */
export function wav(samples, { rate, channels, bits }) {
  const frameBytes = (channels * bits) / 8
  const head = Buffer.alloc(44)
  head.write('RIFF', 0)
  head.writeUInt32LE(36 + samples.length, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(channels, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(rate * frameBytes, 28)
  head.writeUInt16LE(frameBytes, 32)
  head.writeUInt16LE(bits, 34)
  head.write('data', 36)
  head.writeUInt32LE(samples.length, 40)
  return Buffer.concat([head, samples])
}

/**
 * The start and the end of a PDF with that number of pages. `paddingBytes` between them, of any bytes, belong to a stream that
 * no page uses.
 */
export function pdf(pages, paddingBytes = 0) {
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Count ${pages} /Kids [${Array.from({ length: pages }, (_, i) => `${4 + 2 * i} 0 R`).join(' ')}] >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ]
  for (let page = 1; page <= pages; page += 1) {
    const words = `BT /F1 32 Tf 72 700 Td (The words of page ${page}) Tj ET`
    objects.push(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents ${objects.length + 2} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
    )
    objects.push(`<< /Length ${words.length} >>\nstream\n${words}\nendstream`)
  }
  let start = '%PDF-1.7\n'
  const offsets = objects.map((object, i) => {
    const at = start.length
    start += `${i + 1} 0 obj\n${object}\nendobj\n`
    return at
  })
  offsets.push(start.length)
  start += `${objects.length + 1} 0 obj\n<< /Length ${paddingBytes} >>\nstream\n`
  const xref = start.length + paddingBytes + '\nendstream\nendobj\n'.length
  const lines = offsets.map((at) => `${String(at).padStart(10, '0')} 00000 n \n`)
  const size = offsets.length + 1
  const end = `\nendstream\nendobj\nxref\n0 ${size}\n0000000000 65535 f \n${lines.join('')}trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${xref}\n%%EOF\n`
  return { start: Buffer.from(start), end: Buffer.from(end) }
}

/** The generated files of the shared vectors: byte i is i mod 251. */
export function generated(bytes) {
  const period = Buffer.from(Array.from({ length: 251 }, (_, i) => i))
  return Buffer.alloc(bytes, period)
}

/** Bytes that do not compress, the same in each run. */
export function noise(length) {
  return createHash('shake256', { outputLength: length }).update('noise').digest()
}

/** A file for a file input. */
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

/** One step of xorshift. */
function next(state) {
  state ^= state << 13
  state ^= state >>> 17
  return (state ^ (state << 5)) >>> 0
}
