import { signal } from '@preact/signals'
import type { Route } from './route.ts'
import { fileFragment, isFileFragment, parseRoute, withFile } from './route.ts'

const here = () => parseRoute(location.pathname, location.hash)

/** Where this tab is. */
export const route = signal<Route>(here())

/** Follows the tab's history. Called once, at the start. */
export function followHistory(): void {
  addEventListener('popstate', () => {
    route.value = here()
  })
}

/** Goes to an address of ours without leaving the tab, so that what it holds goes on burning. */
export function navigate(address: string): void {
  history.pushState(null, '', address)
  route.value = here()
  if (!address.startsWith('#')) scrollTo(0, 0)
}

/** The fragment that opens a file of the page that this tab is at, with the key when that is private. */
export function fileHere(path: string): string {
  const place = route.peek()
  return fileFragment(path, place.kind === 'page' ? place.key : null)
}

/**
 * A site that this tab shows went to another of its files by itself, with an entry in the tab's history that is the
 * frame's: the address says where it is.
 *
 * @param walk which of the frames it is
 */
export function walkTo(file: string, walk: number): void {
  const place = route.peek()
  if (place.kind !== 'page') return
  try {
    // What an earlier frame says too late is of an entry that the tab has left.
    if (place.file !== null && place.file !== file && isAtAnotherWalk(walk)) return
    const isTold = place.file === file || (place.file === null && !isAtWalk(walk))
    history.replaceState({ walk }, '', isTold ? null : withFile(location.hash, file))
  } catch {
    // Browsers refuse when it happens too often; the address is then a little behind.
    return
  }
  route.value = here()
}

/** Whether the tab's history is at an entry of that walk, to which the frame goes by itself. */
export function isAtWalk(walk: number): boolean {
  return walkHere() === walk
}

function isAtAnotherWalk(walk: number): boolean {
  const here = walkHere()
  return here !== null && here !== walk
}

function walkHere(): unknown {
  const state: unknown = history.state
  return typeof state === 'object' && state !== null && 'walk' in state ? state.walk : null
}

/** Lets links of ours be followed within the tab; for the click handler of what surrounds them. */
export function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  const link = event.target instanceof Element ? event.target.closest('a') : null
  const address = link?.getAttribute('href')
  if (!link || !address || link.target !== '' || link.hasAttribute('download')) return
  if (!address.startsWith('/') && !isFileFragment(address)) return
  event.preventDefault()
  navigate(address)
}
