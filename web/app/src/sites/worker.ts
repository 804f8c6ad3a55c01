import { refusalText } from '../messages/refusals.ts'
import type { Client, WorkerScope } from '../service-worker/scope.ts'
import { policyOf, SANDBOX_HEADERS } from './policy.ts'
import type { ReadReply, ReadRequest } from './protocol.ts'

// The worker of a site's origin. It has no state and caches nothing. It forwards each request to the tab that shows the
// site, and sends the reply with a policy that blocks all connections. Requests that the tab cannot answer are refused.

const scope = self as unknown as WorkerScope
const SHELL = '/.watchfire/shell'
/** Below the five minutes after which browsers stop a worker that has not answered. */
const REPLY_TIMEOUT_MS = 240_000

scope.addEventListener('install', (event) => event.waitUntil(scope.skipWaiting()))
scope.addEventListener('activate', (event) => event.waitUntil(scope.clients.claim()))
scope.addEventListener('fetch', (event) => {
  const { request } = event
  // Only the shell comes from the server, and only without a query, which could carry data out.
  if (request.mode === 'navigate' && request.url === `${scope.location.origin}${SHELL}`) return
  event.respondWith(respond(request))
})

async function respond(request: Request): Promise<Response> {
  const url = new URL(request.url)
  if (url.origin !== scope.location.origin) return Response.error()
  if (request.method !== 'GET' && request.method !== 'HEAD') return textResponse(405, refusalText('get'))
  const shell = await findShell()
  if (shell === null) return textResponse(503, refusalText('closed'))
  const reply = await askTab(shell, { kind: 'read', path: url.pathname, range: request.headers.get('range') })
  switch (reply.kind) {
    case 'failed':
      return textResponse(503, reply.reason)
    case 'file':
      return fileResponse(reply)
  }
}

async function findShell(): Promise<Client | null> {
  const clients = await scope.clients.matchAll({ type: 'window', includeUncontrolled: true })
  return clients.find(({ url }) => new URL(url).pathname === SHELL) ?? null
}

function askTab(shell: Client, request: ReadRequest): Promise<ReadReply> {
  const { port1, port2 } = new MessageChannel()
  return new Promise((resolve) => {
    const timer = setTimeout(() => settle({ kind: 'failed', reason: refusalText('late') }), REPLY_TIMEOUT_MS)
    const settle = (reply: ReadReply) => {
      clearTimeout(timer)
      port1.close()
      resolve(reply)
    }
    port1.onmessage = ({ data }: MessageEvent<ReadReply>) => settle(data)
    shell.postMessage(request, [port2])
  })
}

function fileResponse({ blob, status, part, size, type, scripts, app }: ReadReply & { kind: 'file' }): Response {
  const headers = headersFor({ scripts, app, type })
  if (part === 'unsatisfiable') {
    headers.set('content-range', `bytes */${size}`)
    return new Response(null, { status: 416, headers })
  }
  // The tab of an older build sends the whole file, without a part.
  if (part === null || part === undefined) {
    headers.set('content-length', String(blob.size))
    headers.set('accept-ranges', 'bytes')
    return new Response(blob, { status, headers })
  }
  headers.set('content-range', `bytes ${part.from}-${part.to - 1}/${size}`)
  headers.set('content-length', String(blob.size))
  return new Response(blob, { status: 206, headers })
}

function headersFor({ scripts, app, type }: { scripts: boolean; app: string; type: string }): Headers {
  const headers = new Headers(SANDBOX_HEADERS)
  headers.set('content-security-policy', policyOf({ scripts, app, origin: scope.location.origin }))
  headers.set('content-type', type)
  return headers
}

function textResponse(status: number, text: string): Response {
  const headers = headersFor({ scripts: false, app: '', type: 'text/plain; charset=utf-8' })
  return new Response(`${text}\n`, { status, headers })
}
