import { route } from './location.ts'
import { parseRoute } from './route.ts'

/** Says where this tab is in other words, without a step in its history. */
export function restate(address: string): void {
  history.replaceState(null, '', address)
  route.value = parseRoute(location.pathname, location.hash)
}
