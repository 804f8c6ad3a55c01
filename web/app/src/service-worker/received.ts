/**
 * Content from the share sheet of a phone. The installed app is a share target: the browser sends the content as a form, and the
 * service worker answers that form, so that nothing of it reaches the server. The home page takes it from here into its editor.
 */

import { RECEIVED_HASH } from './received-hash.ts'

/** The path to which the browser sends the form; see `manifest.webmanifest`. */
export const RECEIVE_PATH = '/receive'
/** The address of the home page when there is received content. */
export const RECEIVED_ADDRESS = `/${RECEIVED_HASH}`

const STORE = 'watchfire-received'
const TEXT = '/received/text'
const NAME = 'x-name'
/** More files at once are cut off. */
const FILES_MAX = 500

/** Received text and files. */
export interface Received {
  readonly text: string
  readonly files: readonly { path: string; blob: Blob }[]
}

/** Stores the form until a home page takes it. */
export async function putReceived(form: FormData): Promise<void> {
  const store = await caches.open(STORE)
  const parts = ['title', 'text', 'url'].map((name) => form.get(name)).filter((part) => typeof part === 'string' && part.trim() !== '')
  if (parts.length > 0) await store.put(TEXT, new Response([...new Set(parts)].join('\n\n')))
  const files = form.getAll('files').filter((part) => typeof part !== 'string')
  await Promise.all(
    files.slice(0, FILES_MAX).map((file) => {
      const headers = { [NAME]: encodeURIComponent(file.name), 'content-type': file.type }
      return store.put(`/received/${crypto.randomUUID()}`, new Response(file, { headers }))
    }),
  )
}

/** Takes everything that was received. */
export async function takeReceived(): Promise<Received> {
  const store = await caches.open(STORE)
  const files: { path: string; blob: Blob }[] = []
  let text = ''
  for (const request of await store.keys()) {
    const response = await store.match(request)
    if (response === undefined) continue
    if (new URL(request.url).pathname === TEXT) text = await response.text()
    else files.push({ path: decodeURIComponent(response.headers.get(NAME) ?? '') || 'file', blob: await response.blob() })
  }
  await caches.delete(STORE)
  return { text, files }
}
