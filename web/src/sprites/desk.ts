import type { KeptPicture } from './album.ts'
import { DRAWINGS } from './drawings.tsx'
import { PICTURE_BYTES_MAX, PICTURES_MAX } from './picture-bounds.ts'
import type { TokenKeeper } from './plane.ts'
import { readPicture } from './throw.ts'
import type { World } from './world.ts'
import { SPRITES_MAX } from './world.ts'

/** What of `sessionStorage` is used; it lives as long as the tab, reloads included. */
export type Drawer = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

/** Keeps the token of a plane in the tab. */
export function tokenIn(drawer: Drawer, plane: string): TokenKeeper {
  const key = `sprites-token:${plane}`
  return {
    read: () => drawer.getItem(key),
    write: (token) => (token === null ? drawer.removeItem(key) : drawer.setItem(key, token)),
  }
}

/** Keeps the sprites of a window over a reload: what they are, and where, as fractions. */
export function keepSprites(drawer: Drawer, plane: string, { bodies, width, height }: World): void {
  const kept = bodies.map(({ sprite, picture, x, y }) => [sprite, x / width, y / height, picture])
  drawer.setItem(`sprites-desk:${plane}`, JSON.stringify(kept))
}

/** Puts the sprites back that were kept, or the first few of a newcomer. */
export function putSprites(drawer: Drawer, plane: string, world: World): void {
  const { width, height } = world
  const kept = drawer.getItem(`sprites-desk:${plane}`)
  if (kept === null) {
    const first = [...DRAWINGS.keys()].slice(0, 3)
    // On a slope, so that none is in another's way.
    first.forEach((sprite, i) => world.put(sprite, ((i + 1) * width) / 4, ((i + 1) * height) / 4))
    return
  }
  for (const [sprite, x, y, picture] of readKept(kept).slice(0, SPRITES_MAX)) {
    world.put(sprite, x * width, y * height, readPicture(picture))
  }
}

/**
 * Keeps pictures over a reload, which nobody else may have. A tab that has no room for them loses them then, and
 * nothing else.
 */
export function keepPictures(drawer: Drawer, plane: string, pictures: readonly KeptPicture[]): void {
  const key = `sprites-pictures:${plane}`
  try {
    drawer.setItem(key, JSON.stringify(pictures.map(({ bytes, isMine }) => [isMine, base64(bytes)])))
  } catch {
    drawer.removeItem(key)
  }
}

/** The pictures that were kept; whether they are any is found out when they are held. */
export function keptPictures(drawer: Drawer, plane: string): KeptPicture[] {
  return readList(drawer.getItem(`sprites-pictures:${plane}`) ?? '[]').slice(0, PICTURES_MAX).flatMap((item) => {
    const [isMine, text]: unknown[] = Array.isArray(item) ? item : []
    const bytes = typeof text === 'string' ? bytesOf(text) : null
    return bytes === null ? [] : [{ bytes, isMine: isMine === true }]
  })
}

function base64(bytes: Uint8Array): string {
  let letters = ''
  for (const byte of bytes) letters += String.fromCharCode(byte)
  return btoa(letters)
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> | null {
  if (text.length > 2 * PICTURE_BYTES_MAX) return null
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
  } catch {
    return null
  }
}

function readKept(text: string): [string, number, number, unknown][] {
  return readList(text).filter(isKept)
}

function readList(text: string): unknown[] {
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) ? list : []
  } catch {
    return []
  }
}

function isKept(item: unknown): item is [string, number, number, unknown] {
  if (!Array.isArray(item)) return false
  const [sprite, x, y]: unknown[] = item
  return typeof sprite === 'string' && Number.isFinite(x) && Number.isFinite(y)
}
