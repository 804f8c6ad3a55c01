import { PICTURE_BYTES_MAX, PICTURE_SIDE } from './picture-bounds.ts'

/** Encodes the picture with a longer side of at most `side` pixels. A browser without that encoder writes PNG. */
export type Encode = (side: number, type: string, quality?: number) => Promise<Blob>

const SIDES = [PICTURE_SIDE, 192, 128, 64]
/** Lossless if that is small enough, as for most drawings; otherwise with decreasing quality. */
const WAYS: readonly (readonly [type: string, quality?: number])[] = [['image/png'], ['image/webp', 0.9], ['image/webp', 0.7]]

/** The largest and most exact encoding within the limit; `null` when none is small enough. */
export async function shrunk(encode: Encode): Promise<Blob | null> {
  for (const side of SIDES) {
    for (const [type, quality] of WAYS) {
      const picture = await encode(side, type, quality)
      if (picture.type === type && picture.size <= PICTURE_BYTES_MAX) return picture
    }
  }
  return null
}

/** Scales to a longer side of at most `side`, and at least one pixel. A small picture keeps its size. */
export function within(side: number, width: number, height: number): { width: number; height: number } {
  const scale = Math.min(1, side / Math.max(width, height))
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) }
}
