import { DRAWINGS } from './drawings.tsx'
import type { TokenKeeper } from './plane.ts'
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
  const kept = bodies.map(({ sprite, x, y }) => [sprite, x / width, y / height])
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
  for (const [sprite, x, y] of readKept(kept).slice(0, SPRITES_MAX)) world.put(sprite, x * width, y * height)
}

function readKept(text: string): [string, number, number][] {
  try {
    const kept: unknown = JSON.parse(text)
    return Array.isArray(kept) ? kept.filter(isKept) : []
  } catch {
    return []
  }
}

function isKept(item: unknown): item is [string, number, number] {
  if (!Array.isArray(item)) return false
  const [sprite, x, y]: unknown[] = item
  return typeof sprite === 'string' && Number.isFinite(x) && Number.isFinite(y)
}
