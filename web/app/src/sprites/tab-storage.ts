import type { SavedPicture } from './picture-store.ts'
import { DRAWINGS } from './drawings.tsx'
import { PICTURE_BYTES_MAX, PICTURES_MAX } from './picture-bounds.ts'
import type { TokenKeeper } from './grid.ts'
import { readPicture } from './protocol.ts'
import type { Physics } from './physics.ts'
import { SPRITES_MAX } from './physics.ts'

/** The part of `sessionStorage` that is used; it lasts as long as the tab, reloads included. */
export type TabStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

/** Stores the token of a grid in the tab. */
export function tokenIn(storage: TabStorage, grid: string): TokenKeeper {
  const key = `sprites-token:${grid}`
  return {
    read: () => storage.getItem(key),
    write: (token) => (token === null ? storage.removeItem(key) : storage.setItem(key, token)),
  }
}

/** Saves the sprites of a window across a reload, with positions as fractions. */
export function saveSprites(storage: TabStorage, grid: string, { bodies, width, height }: Physics): void {
  const kept = bodies.map(({ sprite, picture, x, y }) => [sprite, x / width, y / height, picture])
  storage.setItem(`sprites-desk:${grid}`, JSON.stringify(kept))
}

/** Restores the saved sprites, or places the first few for a new visitor. */
export function restoreSprites(storage: TabStorage, grid: string, physics: Physics): void {
  const { width, height } = physics
  const kept = storage.getItem(`sprites-desk:${grid}`)
  if (kept === null) {
    const first = [...DRAWINGS.keys()].slice(0, 3)
    // On a diagonal, so that they do not overlap.
    for (const [i, sprite] of first.entries()) physics.put(sprite, ((i + 1) * width) / 4, ((i + 1) * height) / 4)
    return
  }
  for (const [sprite, x, y, picture] of readKept(kept).slice(0, SPRITES_MAX)) {
    physics.put(sprite, x * width, y * height, readPicture(picture))
  }
}

/**
 * Saves pictures across a reload, because no other peer may have them. Without enough storage they are lost in a
 * reload, and nothing else.
 */
export function savePictures(storage: TabStorage, grid: string, pictures: readonly SavedPicture[]): void {
  const key = `sprites-pictures:${grid}`
  try {
    storage.setItem(key, JSON.stringify(pictures.map(({ bytes, isMine }) => [isMine, base64(bytes)])))
  } catch {
    storage.removeItem(key)
  }
}

/** Loads the saved pictures; they are validated when they are added. */
export function loadPictures(storage: TabStorage, grid: string): SavedPicture[] {
  return readList(storage.getItem(`sprites-pictures:${grid}`) ?? '[]')
    .slice(0, PICTURES_MAX)
    .flatMap((item) => {
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
