import { refusalText } from '../words/refusals.ts'
import type { Read, ReadAnswer } from './message.ts'
import { policyOf, SEALED_HEADERS } from './policy.ts'
import { rangeOf } from './range.ts'
import type { Client, WorkerScope } from './worker-scope.ts'

// The worker of a site's origin. It knows nothing and keeps nothing: each request is asked of the tab that shows the
// site, and answered with a policy that lets nothing out. Whatever is not asked there is refused.

const worker = self as unknown as WorkerScope
const SHELL = '/.watchfire/shell'
/** Browsers end a worker that takes five minutes for one answer. */
const ANSWER_MS = 240_000

worker.addEventListener('install', (event) => event.waitUntil(worker.skipWaiting()))
worker.addEventListener('activate', (event) => event.waitUntil(worker.clients.claim()))
worker.addEventListener('fetch', (event) => {
  const { request } = event
  // The shell alone is the server's to give, and only without a word beside it.
  if (request.mode === 'navigate' && request.url === `${worker.location.origin}${SHELL}`) return
  event.respondWith(answer(request))
})

async function answer(request: Request): Promise<Response> {
  const url = new URL(request.url)
  if (url.origin !== worker.location.origin) return Response.error()
  if (request.method !== 'GET' && request.method !== 'HEAD') return plain(405, refusalText('get'))
  const shell = await findShell()
  if (shell === null) return plain(503, refusalText('closed'))
  const answer = await ask(shell, { kind: 'read', address: url.pathname })
  switch (answer.kind) {
    case 'failed':
      return plain(503, answer.reason)
    case 'file':
      return fileResponse(request, answer)
  }
}

async function findShell(): Promise<Client | null> {
  const clients = await worker.clients.matchAll({ type: 'window', includeUncontrolled: true })
  return clients.find(({ url }) => new URL(url).pathname === SHELL) ?? null
}

function ask(shell: Client, read: Read): Promise<ReadAnswer> {
  const { port1, port2 } = new MessageChannel()
  return new Promise((resolve) => {
    const timer = setTimeout(() => settle({ kind: 'failed', reason: refusalText('late') }), ANSWER_MS)
    const settle = (answer: ReadAnswer) => {
      clearTimeout(timer)
      port1.close()
      resolve(answer)
    }
    port1.onmessage = ({ data }: MessageEvent<ReadAnswer>) => settle(data)
    shell.postMessage(read, [port2])
  })
}

function fileResponse(request: Request, { blob, status, type, scripts, app }: ReadAnswer & { kind: 'file' }): Response {
  const headers = sealed({ scripts, app, type })
  const range = status === 200 ? rangeOf(request.headers.get('range'), blob.size) : null
  if (range === 'beyond') {
    headers.set('content-range', `bytes */${blob.size}`)
    return new Response(null, { status: 416, headers })
  }
  if (range === null) {
    headers.set('content-length', String(blob.size))
    headers.set('accept-ranges', 'bytes')
    return new Response(blob, { status, headers })
  }
  headers.set('content-range', `bytes ${range.from}-${range.to - 1}/${blob.size}`)
  headers.set('content-length', String(range.to - range.from))
  return new Response(blob.slice(range.from, range.to), { status: 206, headers })
}

function sealed({ scripts, app, type }: { scripts: boolean; app: string; type: string }): Headers {
  const headers = new Headers(SEALED_HEADERS)
  headers.set('content-security-policy', policyOf({ scripts, app, origin: worker.location.origin }))
  headers.set('content-type', type)
  return headers
}

function plain(status: number, words: string): Response {
  const headers = sealed({ scripts: false, app: '', type: 'text/plain; charset=utf-8' })
  return new Response(`${words}\n`, { status, headers })
}
