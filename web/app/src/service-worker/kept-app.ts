import { STORE, type KeepRequest } from './keep-app.ts'
import type { FetchEvent } from './scope.ts'

/**
 * The app as the service worker keeps it: index.html, the files that it names, and those that were used since. With it, a link of a server
 * that is gone opens, and its page is looked for at other servers. Only these files are kept: no answer of the API and nothing of a page.
 * While the server answers, each document comes from it. The names of files contain hashes, so each document gets its own files.
 */
const INDEX = '/'
/** The addresses that index.html answers here. */
const VIEW = /^\/(?:p\/.*)?$/
const FILE = /^\/assets\/[\w.-]+$/
/** More than a build has. When the limit is reached, further files are not kept. */
const FILES_MAX = 256
/** When a server has not answered for this long, it counts as gone. */
const ANSWER_TIMEOUT_MS = 5000

/** Answers a request for a view or a file of the app. `null` when the browser should send it to the server. */
export function answerForApp(event: Pick<FetchEvent, 'request' | 'waitUntil'>, own: string): Promise<Response> | null {
  const { request } = event
  const { origin, pathname } = new URL(request.url)
  if (request.method !== 'GET' || origin !== own) return null
  if (request.mode === 'navigate') return request.destination === 'document' && VIEW.test(pathname) ? findIndex(event) : null
  return FILE.test(pathname) ? findFile(event) : null
}

/** The document of the server, and the kept one if the server is gone, also if a proxy in front of it says so. */
async function findIndex(event: Pick<FetchEvent, 'request' | 'waitUntil'>): Promise<Response> {
  const { request } = event
  const kept = await find(INDEX)
  if (kept === undefined) return fetch(request)
  let isLate = false
  const answer = fetch(request)
  const late = new Promise<Response>((resolve) =>
    setTimeout(() => {
      isLate = true
      resolve(kept)
    }, ANSWER_TIMEOUT_MS),
  )
  // The next document is that of the server.
  const updated = answer.then(() => (isLate ? updateApp({ keep: 'app', files: [] }) : undefined))
  event.waitUntil(updated.catch(() => undefined))
  const response = await Promise.race([answer, late]).catch(() => kept)
  return [502, 503, 504].includes(response.status) ? kept : response
}

async function findFile(event: Pick<FetchEvent, 'request' | 'waitUntil'>): Promise<Response> {
  const { request } = event
  const kept = await find(request)
  if (kept !== undefined) return kept
  const response = await fetch(request)
  if (isFile(response)) event.waitUntil(addUsed(request, response.clone()))
  return response
}

/** Returns the answer that is kept for a request. Some browsers refuse storage to private windows. */
function find(request: Request | string): Promise<Response | undefined> {
  return caches.match(request, { cacheName: STORE }).catch(() => undefined)
}

/** Whether an answer is a file of the app, and not a document that a proxy sends in its place. */
function isFile(response: Response): boolean {
  return response.status === 200 && !response.redirected && !response.headers.get('content-type')?.startsWith('text/html')
}

async function addUsed(request: Request, response: Response): Promise<void> {
  if (!(await caches.has(STORE))) return
  const store = await caches.open(STORE)
  if ((await store.keys()).length < FILES_MAX) await store.put(request, response)
}

export function parseKeepRequest(message: unknown): KeepRequest | null {
  const { keep, files } = Object(message) as Partial<Record<keyof KeepRequest, unknown>>
  return keep === 'app' && Array.isArray(files) ? { keep, files: files.filter((file) => FILE.test(String(file))).map(String) } : null
}

/** Fetches files and keeps them, or none of them. */
async function addAll(store: Cache, files: readonly string[]): Promise<void> {
  const answers = await Promise.all(files.map(async (file) => [file, await fetch(file)] as const))
  if (!answers.every(([, answer]) => isFile(answer))) throw new TypeError('not all files of the app are there')
  await Promise.all(answers.map(([file, answer]) => store.put(file, answer)))
}

let updates: Promise<void> = Promise.resolve()

/** Keeps the app of the server as it is now, after earlier updates. If that fails, what was kept before remains. */
export function updateApp(request: KeepRequest): Promise<void> {
  updates = updates.catch(() => undefined).then(() => update(request))
  return updates
}

async function update({ files }: KeepRequest): Promise<void> {
  const index = await fetch(INDEX)
  const html = await index.clone().text()
  const named = new Set(html.match(/\/assets\/[\w.-]+/g))
  const isPrivate = /no-store|private/.test(index.headers.get('cache-control') ?? '')
  // A proxy may have answered with a document of its own.
  if (index.status !== 200 || index.redirected || !html.includes('data-gone="')) return
  if (isPrivate) return void (await caches.delete(STORE))
  const store = await caches.open(STORE)
  const here = async () => (await store.keys()).map(({ url }) => new URL(url).pathname)
  const missingOf = async (wanted: Iterable<string>) => {
    const known = new Set(await here())
    return [...wanted].filter((file) => !known.has(file))
  }
  const before = await store.match(INDEX).then((kept) => kept?.text())
  await addAll(store, await missingOf(named))
  await store.put(INDEX, index)
  if (before !== html) {
    const old = (await here()).filter((file) => file !== INDEX && !named.has(file))
    await Promise.all(old.map((file) => store.delete(file)))
  }
  // The tab may be of an earlier build.
  if (files.some((file) => /^\/assets\/first-.*\.js$/.test(file) && named.has(file)))
    await Promise.allSettled((await missingOf(files)).slice(0, FILES_MAX).map((file) => addAll(store, [file])))
}
