/**
 * Content from the share sheet of a phone. The installed app is a share target: the browser sends the content as a form, and the
 * service worker answers that form, so that nothing of it reaches the server. The home page takes it from here into its editor.
 */

/** The path to which the browser sends the form; see `manifest.webmanifest`. */
export const RECEIVE_PATH = '/receive'

const STORE = 'watchfire-received'
const NAME = 'x-name'

/** Received text and files. */
export interface Received {
  readonly text: string
  readonly files: readonly { path: string; blob: Blob }[]
}

/** Stores the form, beside earlier ones, until a home page takes it. */
export function putReceived(form: FormData): Promise<void> {
  return inTurn(async () => {
    const store = await caches.open(STORE)
    const parts = ['title', 'text', 'url'].map((name) => form.get(name)).filter((part) => typeof part === 'string' && part.trim() !== '')
    const place = () => `/received/${crypto.randomUUID()}`
    if (parts.length > 0) await store.put(place(), new Response([...new Set(parts)].join('\n\n')))
    const files = form.getAll('files').filter((part) => typeof part !== 'string')
    await Promise.all(
      files.map((file) => {
        const headers = { [NAME]: encodeURIComponent(file.name), 'content-type': file.type }
        return store.put(place(), new Response(file, { headers }))
      }),
    )
  })
}

/** Takes everything that was received. Of two tabs that do this at the same time, one gets it. */
export function takeReceived(): Promise<Received> {
  return inTurn(async () => {
    const store = await caches.open(STORE)
    const texts: string[] = []
    const files: { path: string; blob: Blob }[] = []
    for (const request of await store.keys()) {
      const response = await store.match(request)
      if (response === undefined) continue
      const name = response.headers.get(NAME)
      if (name === null) texts.push(await response.text())
      else files.push({ path: decodeURIComponent(name) || 'file', blob: await response.blob() })
    }
    await caches.delete(STORE)
    return { text: texts.join('\n\n'), files }
  })
}

/** Does one work after the other, in the worker and in all tabs: nothing is added to a store that is about to be removed. */
async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  return await navigator.locks.request('watchfire:received', work)
}
