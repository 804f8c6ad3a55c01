// A video of any length, made in the browser: one second is encoded and repeated in the file.

const EBML = { head: 0x1a45dfa3, segment: 0x18538067, info: 0x1549a966, tracks: 0x1654ae6b, cues: 0x1c53bb6b, cluster: 0x1f43b675 }
const FRAMES_A_SECOND = 25

/**
 * A WebM video with an index, so that players can seek. It shows noise, so that its size is as requested.
 * The browser of `person` encodes it.
 */
export async function makeWebm(person, { seconds, bytesPerSecond, width = 320, height = 180 }) {
  const frames = await encodeSecond(person, { bytesPerSecond, width, height })
  const clusters = Array.from({ length: seconds }, (_, second) => cluster(second, frames))
  const head = element(EBML.head, [
    uint(0x4286, 1),
    uint(0x42f7, 1),
    uint(0x42f2, 4),
    uint(0x42f3, 8),
    text(0x4282, 'webm'),
    uint(0x4287, 4),
    uint(0x4285, 2),
  ])
  const info = element(EBML.info, [uint(0x2ad7b1, 1_000_000), float(0x4489, seconds * 1000), text(0x4d80, 'w'), text(0x5741, 'w')])
  const track = element(0xae, [
    uint(0xd7, 1),
    uint(0x73c5, 1),
    uint(0x83, 1),
    text(0x86, 'V_VP8'),
    element(0xe0, [uint(0xb0, width), uint(0xba, height)]),
  ])
  const tracks = element(EBML.tracks, [track])
  const before = info.length + tracks.length
  // Offsets have eight bytes each, so that the index has the same length whatever it contains.
  const cuesLength = cues(clusters, 0).length
  const body = Buffer.concat([info, tracks, cues(clusters, before + cuesLength), ...clusters])
  return Buffer.concat([head, element(EBML.segment, [body])])
}

/** One second of noise: a key frame, and the frames that depend on it. */
async function encodeSecond(person, { bytesPerSecond, width, height }) {
  await person.goTo('/')
  const frames = await person.tab.evaluate(
    async ({ bytesPerSecond, width, height, rate }) => {
      const frames = []
      const encoder = new VideoEncoder({
        output(chunk) {
          const bytes = new Uint8Array(chunk.byteLength)
          chunk.copyTo(bytes)
          let letters = ''
          for (let at = 0; at < bytes.length; at += 0x6000) letters += String.fromCharCode(...bytes.subarray(at, at + 0x6000))
          frames.push(btoa(letters))
        },
        error(reason) {
          throw reason
        },
      })
      encoder.configure({
        codec: 'vp8',
        width,
        height,
        bitrate: bytesPerSecond * 8,
        framerate: rate,
        latencyMode: 'realtime',
        bitrateMode: 'constant',
      })
      const pixels = new Uint8ClampedArray(width * height * 4).fill(255)
      for (let i = 0, state = 7; i < rate; i += 1) {
        for (let at = 0; at < pixels.length; at += 4) {
          state = (Math.imul(state, 1664525) + 1013904223) >>> 0
          pixels[at] = state >>> 24
          pixels[at + 1] = (state >>> 16) & 255
          pixels[at + 2] = i * 10
        }
        const frame = new VideoFrame(pixels, { format: 'RGBA', codedWidth: width, codedHeight: height, timestamp: (i * 1e6) / rate })
        encoder.encode(frame, { keyFrame: i === 0 })
        frame.close()
      }
      await encoder.flush()
      return frames
    },
    { bytesPerSecond, width, height, rate: FRAMES_A_SECOND },
  )
  const encoded = frames.map((frame) => Buffer.from(frame, 'base64'))
  // An encoder may produce less than its bit rate; padding that players skip fills the rest.
  const missing = bytesPerSecond - encoded.reduce((sum, { length }) => sum + length, 0)
  return { encoded, padding: missing > 16 ? element(0xec, [Buffer.alloc(missing, 0x77)]) : Buffer.alloc(0) }
}

function cluster(second, { encoded, padding }) {
  const blocks = encoded.map((frame, i) => {
    const head = Buffer.from([0x81, 0, 0, i === 0 ? 0x80 : 0])
    head.writeInt16BE(Math.round((i * 1000) / FRAMES_A_SECOND), 1)
    return element(0xa3, [head, frame])
  })
  return element(EBML.cluster, [uint(0xe7, second * 1000), ...blocks, padding])
}

function cues(clusters, start) {
  let at = start
  const points = clusters.map((each, second) => {
    const point = element(0xbb, [uint(0xb3, second * 1000), element(0xb7, [uint(0xf7, 1), uint(0xf1, at)])])
    at += each.length
    return point
  })
  return element(EBML.cues, points)
}

function element(id, parts) {
  const body = Buffer.concat(parts)
  const size = Buffer.alloc(8)
  size.writeBigUInt64BE(BigInt(body.length) | (1n << 56n))
  return Buffer.concat([idBytes(id), size, body])
}

function idBytes(id) {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(id)
  return bytes.subarray(bytes.findIndex((byte) => byte !== 0))
}

function uint(id, value) {
  const body = Buffer.alloc(8)
  body.writeBigUInt64BE(BigInt(value))
  return element(id, [body])
}

function float(id, value) {
  const body = Buffer.alloc(8)
  body.writeDoubleBE(value)
  return element(id, [body])
}

function text(id, value) {
  return element(id, [Buffer.from(value)])
}
