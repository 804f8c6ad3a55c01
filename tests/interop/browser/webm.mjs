// Videos made in Chromium: noise of any length, of which one second is encoded and repeated, and a drawn scene.

import { launch } from '../lib/chromium.mjs'

const EBML = { head: 0x1a45dfa3, segment: 0x18538067, info: 0x1549a966, tracks: 0x1654ae6b, cues: 0x1c53bb6b, cluster: 0x1f43b675 }
const FRAMES_A_SECOND = 25

/**
 * A WebM video with an index, so that players can seek. It shows noise, so that its size is as requested. The browser of
 * `person` encodes it if it is Chromium, and otherwise a Chromium beside it.
 */
export async function makeWebm(person, { seconds, bytesPerSecond, width = 320, height = 180 }) {
  await person.goTo('/')
  const isChromium = person.engine.name === 'chromium'
  const browser = isChromium ? null : await launch()
  const tab = browser === null ? person.tab : await browser.newPage()
  // Encoders need a page with a secure address.
  if (browser !== null) await tab.goto(await person.tab.url())
  await tab.evaluate(paintNoise, { width, height })
  const second = await encodeSecond(tab, 0, { bytesPerSecond, width, height })
  await browser?.close()
  const all = Array.from({ length: seconds }, () => second)
  return webmOf(all, { width, height })
}

/** A WebM video for people: a sun rises over waves, and the time is shown. The Chromium of the tab encodes it. */
export async function makeSunrise(tab, { seconds, bytesPerSecond, width = 640, height = 360 }) {
  await tab.evaluate(paintSunrise, { width, height, seconds, rate: FRAMES_A_SECOND })
  const all = []
  while (all.length < seconds) all.push(await encodeSecond(tab, all.length, { bytesPerSecond, width, height }))
  return webmOf(all, { width, height })
}

function webmOf(seconds, { width, height }) {
  const clusters = seconds.map((frames, second) => cluster(second, frames))
  const head = element(EBML.head, [
    uint(0x4286, 1),
    uint(0x42f7, 1),
    uint(0x42f2, 4),
    uint(0x42f3, 8),
    text(0x4282, 'webm'),
    uint(0x4287, 4),
    uint(0x4285, 2),
  ])
  const info = element(EBML.info, [uint(0x2ad7b1, 1_000_000), float(0x4489, seconds.length * 1000), text(0x4d80, 'w'), text(0x5741, 'w')])
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

/** One second of what `globalThis.paintFrame` paints: a key frame, and the frames that depend on it. */
async function encodeSecond(tab, second, { bytesPerSecond, width, height }) {
  const frames = await tab.evaluate(encode, { second, width, height, bitrate: bytesPerSecond * 8, rate: FRAMES_A_SECOND })
  const encoded = frames.map((frame) => Buffer.from(frame, 'base64'))
  // An encoder may produce less than its bit rate; padding that players skip fills the rest.
  const missing = bytesPerSecond - encoded.reduce((sum, { length }) => sum + length, 0)
  return { encoded, padding: missing > 16 ? element(0xec, [Buffer.alloc(missing, 0x77)]) : Buffer.alloc(0) }
}

/** Encodes one second; returns its frames in base64. Runs in the page. */
async function encode({ second, width, height, bitrate, rate }) {
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
  encoder.configure({ codec: 'vp8', width, height, bitrate, framerate: rate, latencyMode: 'realtime', bitrateMode: 'constant' })
  for (let i = 0; i < rate; i += 1) {
    const frame = globalThis.paintFrame(second * rate + i, (i * 1e6) / rate)
    encoder.encode(frame, { keyFrame: i === 0 })
    frame.close()
  }
  await encoder.flush()
  return frames
}

/** Prepares frames of noise. Runs in the page. */
function paintNoise({ width, height }) {
  const pixels = new Uint8ClampedArray(width * height * 4).fill(255)
  let state = 7
  globalThis.paintFrame = (number, timestamp) => {
    for (let at = 0; at < pixels.length; at += 4) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      pixels[at] = state >>> 24
      pixels[at + 1] = (state >>> 16) & 255
      pixels[at + 2] = number * 10
    }
    return new VideoFrame(pixels, { format: 'RGBA', codedWidth: width, codedHeight: height, timestamp })
  }
}

/** Prepares frames of a sun that rises over waves, with the time. Runs in the page. */
function paintSunrise({ width, height, seconds, rate }) {
  const canvas = new OffscreenCanvas(width, height)
  const pen = canvas.getContext('2d')
  const paintSky = (risen) => {
    const sky = pen.createLinearGradient(0, 0, 0, height)
    sky.addColorStop(0, `hsl(${230 - 20 * risen} 60% ${14 + 46 * risen}%)`)
    sky.addColorStop(0.75, `hsl(${20 + 20 * risen} 90% ${40 + 30 * risen}%)`)
    pen.fillStyle = sky
    pen.fillRect(0, 0, width, height)
    pen.fillStyle = `hsl(${40 + 10 * risen} 100% ${62 + 20 * risen}%)`
    pen.beginPath()
    pen.arc(width * (0.25 + 0.5 * risen), height * (0.8 - 0.55 * risen), height * 0.1, 0, 2 * Math.PI)
    pen.fill()
  }
  const paintWave = (wave, time, risen) => {
    pen.fillStyle = `hsl(215 55% ${31 - 5 * wave + 14 * risen}%)`
    pen.beginPath()
    pen.moveTo(0, height)
    for (let x = 0; x <= width; x += 8) {
      pen.lineTo(x, height * (0.74 + 0.06 * wave) + 5 * Math.sin(x / (60 + 12 * wave) + time * (1 + 0.4 * wave) + wave))
    }
    pen.lineTo(width, height)
    pen.fill()
  }
  globalThis.paintFrame = (number, timestamp) => {
    const time = number / rate
    paintSky(time / seconds)
    for (let wave = 0; wave < 4; wave += 1) paintWave(wave, time, time / seconds)
    pen.fillStyle = 'white'
    pen.font = `bold ${Math.round(height / 9)}px system-ui`
    pen.fillText(`0:${String(Math.floor(time)).padStart(2, '0')}`, width * 0.04, height * 0.14)
    return new VideoFrame(canvas, { timestamp })
  }
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
