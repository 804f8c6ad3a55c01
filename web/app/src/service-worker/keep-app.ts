/** The tab's part of keeping the app: see `kept-app.ts`. */

/** Asks the worker to keep the app, with these files that this tab has loaded. */
export interface KeepRequest {
  readonly keep: 'app'
  readonly files: readonly string[]
}

/** When a page has probably loaded. */
const IDLE_MS = 3000
const NEIGHBOURS = 'watchfire:neighbours'

let isAsked = false

/** Has the service worker keep the app, and keeps the neighbours of this server, which can be anything. Does it later, and once in a tab. */
export function keepApp(neighbours: unknown): void {
  if (isAsked) return
  isAsked = true
  setTimeout(() => void ask(neighbours).catch(() => undefined), IDLE_MS)
}

async function ask(neighbours: unknown): Promise<void> {
  localStorage.setItem(NEIGHBOURS, JSON.stringify(neighbours ?? []))
  await navigator.serviceWorker?.register('/worker.js', { scope: '/', updateViaCache: 'none' })
  const { active } = (await navigator.serviceWorker?.ready) ?? {}
  const loaded = performance.getEntriesByType('resource').map(({ name }) => new URL(name))
  const files = loaded.filter(({ origin }) => origin === location.origin).map(({ pathname }) => pathname)
  active?.postMessage({ keep: 'app', files } satisfies KeepRequest)
}

/** The neighbours of this server when the app was kept last. They can be anything. */
export function keptNeighbours(): unknown {
  try {
    return JSON.parse(localStorage.getItem(NEIGHBOURS) ?? '[]')
  } catch {
    return []
  }
}
