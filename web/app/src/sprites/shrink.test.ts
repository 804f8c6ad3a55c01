import { describe, expect, it } from 'vitest'
import { PICTURE_BYTES_MAX } from './picture-bounds.ts'
import { shrunk, within } from './shrink.ts'

/** A fake encoder with this many bytes per pixel in each format. */
function encoder(weights: Record<string, number>) {
  const asked: string[] = []
  const encode = (side: number, type: string, quality = 1) => {
    asked.push(`${side} ${type} ${quality}`)
    const written = type in weights ? type : 'image/png'
    return Promise.resolve(new Blob([new Uint8Array(Math.ceil(side * side * (weights[written] ?? 0) * quality))], { type: written }))
  }
  return { asked, encode }
}

describe('a picture', () => {
  it('that is small enough is encoded losslessly', async () => {
    const { asked, encode } = encoder({ 'image/png': 0.5, 'image/webp': 0.1 })
    expect((await shrunk(encode))?.type).toBe('image/png')
    expect(asked).toEqual(['256 image/png 1'])
  })

  it('that is too large loses quality before size', async () => {
    const { asked, encode } = encoder({ 'image/png': 4, 'image/webp': 1.2 })
    const picture = await shrunk(encode)
    expect(picture?.type).toBe('image/webp')
    expect(picture?.size).toBeLessThanOrEqual(PICTURE_BYTES_MAX)
    expect(asked.at(-1)).toBe('256 image/webp 0.7')
  })

  it('of noise, in a browser that only writes PNG, is scaled down until it fits', async () => {
    const { asked, encode } = encoder({ 'image/png': 4.1 })
    expect((await shrunk(encode))?.type).toBe('image/png')
    expect(asked.at(-1)).toBe('64 image/png 1')
  })

  it('that cannot fit is null', async () => {
    expect(await shrunk(encoder({ 'image/png': 100, 'image/webp': 100 }).encode)).toBeNull()
  })

  it('keeps its aspect ratio, and is not enlarged', () => {
    expect(within(256, 4000, 3000)).toEqual({ width: 256, height: 192 })
    expect(within(256, 3, 9000)).toEqual({ width: 1, height: 256 })
    expect(within(256, 32, 16)).toEqual({ width: 32, height: 16 })
  })
})
