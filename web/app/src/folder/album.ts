import { kindOfName } from '@watchfire/pages/files'

/** The part of the files of a folder that are pictures, from which it is shown as a gallery. */
const PICTURES_SHARE_MIN = 0.75

/** Whether a file is a picture, by its name. */
export function isPicture({ path }: { readonly path: string }): boolean {
  return kindOfName(path)?.kind === 'picture'
}

/** Whether a folder with that many files and pictures is for looking at pictures. */
export function isAlbum(pictures: number, files: number): boolean {
  return pictures > 1 && pictures >= files * PICTURES_SHARE_MIN
}

/** How far a finger has to move to the side, in pixels of CSS, to turn to another picture. */
const SWIPE_MIN = 40

/** The step to another picture of a finger that moved that far: 1 for the next in reading order, -1 for the one before, or 0. */
export function swipeStep(x: number, y: number, isLeftToRight: boolean): -1 | 0 | 1 {
  if (Math.abs(x) < SWIPE_MIN || Math.abs(x) < 2 * Math.abs(y)) return 0
  return x < 0 === isLeftToRight ? 1 : -1
}
