import { signal } from '@preact/signals'
import type { Route } from './route.ts'
import { fileFragment, isFileFragment, parseRoute } from './route.ts'

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
