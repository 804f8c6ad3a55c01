import { beforeEach, describe, expect, it, vi } from 'vitest'
import { answerForApp, parseKeepRequest, updateApp } from './kept-app.ts'

const OWN = 'https://fire.example'
const CID = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
const indexOf = (build: number) => `<script data-gone="/assets/away-${build}.js" src="/assets/first-${build}.js"></script>`

let stored: Map<string, Response>
/** The files of the server by path. `null`: it is gone. */
let server: Map<string, Response> | null
let requested: string[]
const pathOf = (request: Request | string) => (typeof request === 'string' ? request : new URL(request.url).pathname)
beforeEach(() => {
  const stores = new Map<string, Map<string, Response>>()
  requested = []
  const store = (files: Map<string, Response>) => ({
    keys: async () => [...files.keys()].map((path) => ({ url: OWN + path })),
    match: async (path: string) => files.get(path)?.clone(),
    put: async (request: Request | string, response: Response) => void files.set(pathOf(request), response),
    delete: async (path: string) => files.delete(path),
    async add(path: string) {
      await this.addAll([path])
    },
    async addAll(paths: string[]) {
      const responses = await Promise.all(paths.map((path) => fetch(path)))
      if (responses.some(({ ok }) => !ok)) throw new TypeError('not all files are there')
      for (const [n, path] of paths.entries()) files.set(path, responses[n] as Response)
    },
  })
  stored = new Map()
  vi.stubGlobal('caches', {
    has: async (name: string) => stores.has(name),
    delete: async (name: string) => {
      stores.get(name)?.clear()
      return stores.delete(name)
    },
    open: async (name: string) => store(stores.set(name, stored).get(name) as typeof stored),
    match: async (request: Request | string, { cacheName }: { cacheName: string }) => stores.get(cacheName)?.get(pathOf(request))?.clone(),
  })
  vi.stubGlobal('fetch', async (request: Request | string) => {
    requested.push(pathOf(request))
    if (server === null) throw new TypeError('Failed to fetch')
    return server.get(pathOf(request))?.clone() ?? new Response(null, { status: 404 })
  })
  serve(1)
})

/** The server has this build of the app from now on. */
function serve(build: number, ...more: string[]): void {
  const files = ['first', 'away', 'text'].map((name) => `/assets/${name}-${build}.js`)
  server = new Map([...files, ...more].map((path) => [path, new Response(path)]))
  for (const path of ['/', `/p/${CID}`]) server.set(path, new Response(indexOf(build), { headers: { 'content-security-policy': 'x' } }))
}

const keep = (...files: string[]) => updateApp({ keep: 'app', files })
const requestOf = (path: string, options: object = {}) => ({
  method: 'GET',
  url: OWN + path,
  mode: 'cors',
  destination: 'script',
  ...options,
})
const view = { mode: 'navigate', destination: 'document' }
/** The answer of the worker, once all is kept. */
async function answer(path: string, options: object = {}): Promise<Response | null> {
  const waits: Promise<unknown>[] = []
  const event = { request: requestOf(path, options) as Request, waitUntil: (work: Promise<unknown>) => void waits.push(work) }
  const response = await answerForApp(event, OWN)
  await Promise.all(waits)
  return response
}
const textOf = async (response: Promise<Response | null>) => (await response)?.text()
const kept = () => [...stored.keys()].sort()

describe('the app that a service worker keeps', () => {
  it('answers for a page when the server is gone or a proxy says so, with the policy that it came with', async () => {
    await keep('/assets/first-1.js', '/assets/text-1.js')
    server = null
    const response = await answer(`/p/${CID}`, view)
    expect([await response?.text(), response?.headers.get('content-security-policy')]).toEqual([indexOf(1), 'x'])
    for (const file of ['first', 'away', 'text']) expect(await textOf(answer(`/assets/${file}-1.js`))).toBe(`/assets/${file}-1.js`)
    server = new Map([['/', new Response('bad gateway', { status: 502 })]])
    expect(await textOf(answer('/', view))).toBe(indexOf(1))
  })

  it('leaves documents to a server that answers, and gives up one that does not answer in time', async () => {
    await keep()
    serve(2)
    expect(await textOf(answer('/', view))).toBe(indexOf(2))
    vi.useFakeTimers()
    const fetchNow = fetch
    let proceed = () => {}
    const slow = new Promise<void>((resolve) => (proceed = resolve))
    vi.stubGlobal('fetch', (request: Request) => slow.then(() => fetchNow(request)))
    const waits: Promise<unknown>[] = []
    const event = { request: requestOf('/', view) as Request, waitUntil: (work: Promise<unknown>) => void waits.push(work) }
    const late = textOf(answerForApp(event, OWN) as Promise<Response>)
    await vi.advanceTimersByTimeAsync(5000)
    expect(await late).toBe(indexOf(1))
    vi.useRealTimers()
    // It was only slow, so the next document is the new one.
    proceed()
    await Promise.all(waits)
    expect(kept()).toEqual(['/', '/assets/away-2.js', '/assets/first-2.js'])
  })

  it('has files that were used since, and those of one build only', async () => {
    await keep('/assets/first-1.js')
    await answer('/assets/text-1.js')
    expect(kept()).toEqual(['/', '/assets/away-1.js', '/assets/first-1.js', '/assets/text-1.js'])
    serve(2)
    // The tab is of the first build.
    await keep('/assets/first-1.js', '/assets/text-1.js')
    expect(kept()).toEqual(['/', '/assets/away-2.js', '/assets/first-2.js'])
    await keep('/assets/first-2.js', '/assets/text-2.js')
    expect(kept()).toEqual(['/', '/assets/away-2.js', '/assets/first-2.js', '/assets/text-2.js'])
  })

  it('remains when the next one is not whole or is not the app, and is gone when it may not be stored', async () => {
    await keep()
    const before = kept()
    serve(2)
    server?.delete('/assets/away-2.js')
    await expect(keep()).rejects.toThrow()
    server?.set('/assets/away-2.js', new Response('<p>Please log in', { headers: { 'content-type': 'text/html' } }))
    await expect(keep()).rejects.toThrow()
    for (const body of ['<p>Please log in', '<script src="/assets/another-app.js"></script>']) {
      server?.set('/', new Response(body))
      await keep()
    }
    expect(kept()).toEqual(before)
    serve(2)
    server?.set('/', new Response(indexOf(2), { headers: { 'cache-control': 'private, no-store' } }))
    await keep()
    expect(kept()).toEqual([])
  })

  it('is kept only where a tab has asked for it', async () => {
    await answer('/', view)
    await answer('/assets/text-1.js')
    expect([kept(), requested]).toEqual([[], ['/', '/assets/text-1.js']])
    expect(
      parseKeepRequest({ keep: 'app', files: ['/assets/a-1.js', '/limits', '/assets/../x', 7, 'https://b.example/assets/a.js'] }),
    ).toEqual({
      keep: 'app',
      files: ['/assets/a-1.js'],
    })
    for (const message of [null, 7, { keep: 'page', files: [] }, { keep: 'app' }, { streaming: 'claim' }])
      expect(parseKeepRequest(message)).toBe(null)
  })

  it('answers nothing else', () => {
    const other = { url: 'https://b.example/' }
    for (const request of [
      requestOf('/limits'),
      requestOf('/worker.js'),
      requestOf('/neighbours/pages'),
      requestOf('/chat', view),
      requestOf('/', { ...view, method: 'POST' }),
      requestOf('/', { ...view, destination: 'iframe' }),
      requestOf('/', { ...view, ...other }),
    ])
      expect(answerForApp({ request: request as unknown as Request, waitUntil: () => {} }, OWN)).toBe(null)
  })
})
