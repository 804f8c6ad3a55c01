import { PICTURE_BYTES_MAX, PICTURE_SIDE } from './picture-bounds.ts'

/** Writes the picture with a longer side of at most `side` pixels. What a browser cannot write it writes as PNG. */
export type Encode = (side: number, type: string, quality?: number) => Promise<Blob>

const SIDES = [PICTURE_SIDE, 192, 128, 64]
/** As it is where that is small enough, as for most drawings; else less and less exactly. */
const WAYS: readonly (readonly [type: string, quality?: number])[] = [['image/png'], ['image/webp', 0.9], ['image/webp', 0.7]]

/** The picture as large and as exact as the bound allows; `null` when no way of writing it is small enough. */
export async function shrunk(encode: Encode): Promise<Blob | null> {
  for (const side of SIDES) {
    for (const [type, quality] of WAYS) {
      const picture = await encode(side, type, quality)
      if (picture.type === type && picture.size <= PICTURE_BYTES_MAX) return picture
    }
  }
  return null
}

/** Width and height with a longer side of at most `side`, and no side lost. A small picture stays as it is. */
export function within(side: number, width: number, height: number): { width: number; height: number } {
  const scale = Math.min(1, side / Math.max(width, height))
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) }
}
