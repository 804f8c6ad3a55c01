/** The properties stated in the header of a picture. */
export interface Raster {
  readonly type: 'image/png' | 'image/jpeg' | 'image/webp'
  readonly width: number
  readonly height: number
  /** Whether it is animated. */
  readonly isMoving: boolean
}

/**
 * Parses the header of a PNG, JPEG or WebP, whatever its file name; `null` for anything else. The size is known
 * before decoding, when a wrong one would cost memory.
 */
export function readRaster(bytes: Uint8Array): Raster | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    return readPng(view) ?? readWebp(view) ?? readJpeg(view)
  } catch (error) {
    // The data ends within the header.
    if (error instanceof RangeError) return null
    throw error
  }
}

/** https://www.w3.org/TR/png-3/#5DataRep */
function readPng(view: DataView): Raster | null {
  if (view.getUint32(0) !== 0x89504e47 || view.getUint32(4) !== 0x0d0a1a0a || word(view, 12) !== 'IHDR') return null
  const [width, height] = [view.getUint32(16), view.getUint32(20)]
  for (let at = 8; word(view, at + 4) !== 'IDAT'; at += 12 + view.getUint32(at)) {
    if (word(view, at + 4) === 'acTL') return { type: 'image/png', width, height, isMoving: true }
  }
  return { type: 'image/png', width, height, isMoving: false }
}

/** https://www.rfc-editor.org/rfc/rfc9649 */
function readWebp(view: DataView): Raster | null {
  if (word(view, 0) !== 'RIFF' || word(view, 8) !== 'WEBP') return null
  const type = 'image/webp'
  switch (word(view, 12)) {
    case 'VP8 ':
      if (view.getUint16(23) !== 0x9d01 || view.getUint8(25) !== 0x2a) return null
      return { type, width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff, isMoving: false }
    case 'VP8L': {
      if (view.getUint8(20) !== 0x2f) return null
      const sizes = view.getUint32(21, true)
      return { type, width: (sizes & 0x3fff) + 1, height: ((sizes >>> 14) & 0x3fff) + 1, isMoving: false }
    }
    case 'VP8X': {
      const sideAt = (at: number) => view.getUint16(at, true) + (view.getUint8(at + 2) << 16) + 1
      return { type, width: sideAt(24), height: sideAt(27), isMoving: (view.getUint8(20) & 2) !== 0 }
    }
    default:
      return null
  }
}

/** https://www.w3.org/Graphics/JPEG/itu-t81.pdf, annex B */
function readJpeg(view: DataView): Raster | null {
  if (view.getUint16(0) !== 0xffd8) return null
  for (let at = 2; view.getUint8(at) === 0xff; ) {
    const marker = view.getUint8(at + 1)
    // Any number of fill bytes may precede a marker.
    if (marker === 0xff) {
      at++
      continue
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)
    if (isFrame) {
      return { type: 'image/jpeg', width: view.getUint16(at + 7), height: view.getUint16(at + 5), isMoving: false }
    }
    // The image data starts, or there is none.
    if (marker === 0xda || marker === 0xd9) return null
    at += 2 + view.getUint16(at + 2)
  }
  return null
}

function word(view: DataView, at: number): string {
  return String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3))
}
