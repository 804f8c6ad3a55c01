import { route } from './location.ts'
import { parseRoute } from './route.ts'

/** Replaces the address of this tab without a history entry. */
export function replaceAddress(address: string): void {
  history.replaceState(null, '', address)
  route.value = parseRoute(location.pathname, location.hash)
}
