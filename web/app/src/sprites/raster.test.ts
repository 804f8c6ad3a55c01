import { describe, expect, it } from 'vitest'
import { readRaster } from './raster.ts'

const letters = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0))
const bytesOf = (base64: string) => letters(atob(base64))

/** Pictures of 2 × 1 pixels, written by Chromium, without colour profiles. The JPEG ends after its frame header. */
const PNG = bytesOf(
  'iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAYAAAD0In+KAAAAEklEQVR4AWL638Hwn4Hh/38AAAAA//+fO4OlAAAABklEQVQDABPDBIdwl2iBAAAAAElFTkSuQmCC',
)
const JPEG = bytesOf('/9j/4AAQSkZJRgABAQAAAQABAAD/wAARCAABAAIDASIAAhEBAxEB')
const WEBP = bytesOf('UklGRjYAAABXRUJQVlA4ICoAAACwAQCdASoCAAEAAsBMJQBOgCHfwHkAAP7xvjUudH9V8DLbYqMCStWYQAA=')
const WEBP_LOSSLESS = bytesOf('UklGRh4AAABXRUJQVlA4TBIAAAAvAQAAAA8wiPO///MfPMiI/gc=')
const WEBP_WITH_ALPHA = bytesOf(
  'UklGRlgAAABXRUJQVlA4WAoAAAAQAAAAAQAAAAAAQUxQSAMAAAAA/4AAVlA4IC4AAACwAQCdASoCAAEAAsBMJaACdAEO/gLsAP7xvjUudH9V9qqnr9a35JepPysEQAAA',
)
const MOVING_PNG = Uint8Array.from([...PNG.subarray(0, 33), 0, 0, 0, 0, ...letters('acTL'), 0, 0, 0, 0, ...PNG.subarray(33)])
const MOVING_WEBP = WEBP_WITH_ALPHA.with(20, 2)
const GIF = letters('GIF89a\x02\0\x01\0\0\0\0;')

const size = { width: 2, height: 1, isMoving: false }

describe('the head of a picture', () => {
  it('contains its type and size, whatever the file name', () => {
    expect(readRaster(PNG)).toEqual({ type: 'image/png', ...size })
    expect(readRaster(JPEG)).toEqual({ type: 'image/jpeg', ...size })
    for (const webp of [WEBP, WEBP_LOSSLESS, WEBP_WITH_ALPHA]) {
      expect(readRaster(webp)).toEqual({ type: 'image/webp', ...size })
    }
  })

  it('shows whether it is animated', () => {
    expect(readRaster(MOVING_PNG)?.isMoving).toBe(true)
    expect(readRaster(MOVING_WEBP)?.isMoving).toBe(true)
  })

  it('of anything else is null', () => {
    const texts = ['', 'hello', '<svg xmlns="http://www.w3.org/2000/svg"/>', 'RIFF....WAVEfmt ....................']
    for (const text of texts) expect(readRaster(letters(text))).toBeNull()
    expect(readRaster(GIF)).toBeNull()
  })

  it('that is truncated or has circular lengths does no harm', () => {
    for (const whole of [PNG, JPEG, WEBP, WEBP_LOSSLESS, WEBP_WITH_ALPHA, MOVING_PNG]) {
      for (let length = 0; length < whole.length; length++) {
        const read = readRaster(whole.subarray(0, length))
        if (read !== null) expect(read).toMatchObject({ width: 2, height: 1 })
      }
    }
    // A chunk of 2^32 - 12 bytes would end where it began, if lengths were taken modulo 2^32.
    const circle = PNG.slice()
    circle.set([0xff, 0xff, 0xff, 0xf4], 8)
    expect(readRaster(circle)).toBeNull()
  })
})
