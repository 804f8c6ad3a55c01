/** The tab's part of keeping the app: see `kept-app.ts`. */

/** Asks the worker to keep the app, with these files that this tab has loaded. */
export interface KeepRequest {
  readonly keep: 'app'
  readonly files: readonly string[]
}

/** The cache with the app. */
export const STORE = 'watchfire-app'
/** When a page has probably loaded. */
const IDLE_MS = 3000
const NEIGHBOURS = 'watchfire:neighbours'

let isAsked = false

/**
 * Has the service worker keep the app, and keeps the neighbours of this server, which can be anything, if it has some or a link names other
 * servers. Does it later, and once in a tab. Once the server has no neighbours any more, nothing is kept.
 */
export function keepApp(neighbours: unknown, isLinked: boolean): void {
  const kept = stored()
  if (neighbours === undefined && !isLinked && kept !== '[]') {
    if (kept !== null) forgetApp()
    return
  }
  if (isAsked) return
  isAsked = true
  setTimeout(() => void ask(neighbours).catch(() => undefined), IDLE_MS)
}

async function ask(neighbours: unknown): Promise<void> {
  try {
    localStorage.setItem(NEIGHBOURS, JSON.stringify(neighbours ?? []))
  } catch {
    // The storage is full: the app is kept without its neighbours.
  }
  await navigator.serviceWorker?.register('/worker.js', { scope: '/', updateViaCache: 'none' })
  const { active } = (await navigator.serviceWorker?.ready) ?? {}
  const loaded = performance.getEntriesByType('resource').map(({ name }) => new URL(name))
  const files = loaded.filter(({ origin }) => origin === location.origin).map(({ pathname }) => pathname)
  active?.postMessage({ keep: 'app', files } satisfies KeepRequest)
}

function forgetApp(): void {
  localStorage.removeItem(NEIGHBOURS)
  void globalThis.caches?.delete(STORE).catch(() => undefined)
}

function stored(): string | null {
  try {
    return localStorage.getItem(NEIGHBOURS)
  } catch {
    return null
  }
}

/** The neighbours of this server when the app was kept last. They can be anything. */
export function keptNeighbours(): unknown {
  try {
    return JSON.parse(stored() ?? '[]')
  } catch {
    return []
  }
}
