import { signal } from '@preact/signals'
import { fileFragment, isFileFragment, withFile } from '@watchfire/pages/addresses'
import type { Route } from './route.ts'
import { parseRoute } from './route.ts'

const here = () => parseRoute(location.pathname, location.hash)

/** The current view of this tab. */
export const route = signal<Route>(here())

/** Follows the tab's history. Called once, at startup. */
export function followHistory(): void {
  addEventListener('popstate', ({ state }: { state: { top?: number } | null }) => {
    route.value = here()
    const top = state?.top
    // Once the view is drawn. The browser restores the place too, at times in the view that is left.
    if (top !== undefined) requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(0, top)))
  })
}

/** Navigates within the tab, so that its pages stay open. */
export function navigate(address: string): void {
  // For the way back.
  history.replaceState({ ...history.state, top: scrollY }, '')
  history.pushState(null, '', address)
  route.value = here()
  // A file is shown above the list from which it was opened.
  scrollTo(0, 0)
}

/** The fragment that opens a file of the current page, perhaps at a part of it, with the key when the page is private. */
export function fileLink(path: string, part: string | null = null): string {
  const place = route.peek()
  return fileFragment(path, place.kind === 'page' ? place.key : null, part)
}

/**
 * Records that a site in this tab navigated to another of its files. The frame has added the history entry
 * itself; this updates the address of that entry.
 *
 * @param frameId the frame, counted up for each new one
 */
export function recordFrameFile(file: string, frameId: number): void {
  const place = route.peek()
  if (place.kind !== 'page') return
  try {
    // A late message from an earlier frame is about an entry that the tab has left.
    if (place.file !== null && place.file !== file && isAtOtherFrameEntry(frameId)) return
    const isTold = place.file === file || (place.file === null && !isAtFrameEntry(frameId))
    history.replaceState({ frameId }, '', isTold ? null : withFile(location.hash, file))
  } catch {
    // Browsers reject too frequent updates; the address is then slightly out of date.
    return
  }
  route.value = here()
}

/** Whether the current history entry belongs to that frame, which then navigates by itself. */
export function isAtFrameEntry(frameId: number): boolean {
  return currentFrameId() === frameId
}

function isAtOtherFrameEntry(frameId: number): boolean {
  const here = currentFrameId()
  return here !== null && here !== frameId
}

function currentFrameId(): unknown {
  return (history.state as { frameId?: unknown } | null)?.frameId ?? null
}

/** Click handler of a container: follows links to our own views within the tab. */
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
