/** Files of an open page by address, through the service worker: for players that seek, and for saving as it comes. */
import { Tap } from './tap.ts'

export type { Given, Tap } from './tap.ts'

let own: Tap | null = null

/** This tab's tap, once the worker serves it; `null` where there is none: on plain HTTP, or when it was refused. */
export async function openTap(): Promise<Tap | null> {
  // Not there in insecure contexts.
  if (navigator.serviceWorker === undefined) return null
  if (own === null) {
    const made = (own = new Tap(navigator.serviceWorker))
    addEventListener('pagehide', () => made.close())
  }
  return (await own.ready()) ? own : null
}
