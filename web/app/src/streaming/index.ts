/** Files of an open page under URLs of their own, through the service worker: for players that seek, and for saving. */
import { FileStreams } from './file-streams.ts'

export type { FileStreams } from './file-streams.ts'

let own: FileStreams | null = null

/**
 * The files that this tab offers, once the service worker controls it. `null` when there is no worker: the page came over
 * plain HTTP, or the browser refused to register it.
 */
export async function openFileStreams(): Promise<FileStreams | null> {
  // `serviceWorker` is absent in insecure contexts.
  if (navigator.serviceWorker === undefined) return null
  if (own === null) {
    const created = new FileStreams(navigator.serviceWorker)
    own = created
    addEventListener('pagehide', () => created.close())
  }
  return (await own.ready()) ? own : null
}
