import { answerForApp, parseKeepRequest, updateApp } from '../service-worker/kept-app.ts'
import type { Client, FetchEvent, WorkerScope } from '../service-worker/scope.ts'
import { NOT_RECEIVED_HASH, RECEIVED_HASH } from '../service-worker/received-hash.ts'
import { putReceived, RECEIVE_PATH } from '../service-worker/received.ts'
import { showTab } from '../service-worker/show-tab.ts'
import { parsePullReply, parseWorkerCommand, type OpenRequest, type PullReply } from './protocol.ts'
import { pullStream } from './pull-stream.ts'
import { parseRequest, type WorkerRequest } from './request.ts'
import { headFor, refusal, type Head } from './response.ts'

// The app's service worker. It answers requests for files that a tab offers, by pulling each chunk from that tab. It keeps the files of
// the app itself where a tab asks for that, and leaves all other requests to the browser.

/** Open streams of all tabs together; a further request is refused until one ends. */
const STREAMS_MAX = 64
/** Tabs that are asked for a ticket; the rest are ignored. */
const TABS_MAX = 64
const REPLY_TIMEOUT_MS = 5000
/** Interval between checks that the tab of a stream still exists. */
const TAB_CHECK_INTERVAL_MS = 3000
/** The time for which one `keep-alive` keeps the worker running. */
const KEEP_ALIVE_MS = 25_000

const scope = self as unknown as WorkerScope
let streams = 0

scope.addEventListener('install', (event) => event.waitUntil(scope.skipWaiting()))
scope.addEventListener('activate', (event) => event.waitUntil(scope.clients.claim()))
scope.addEventListener('fetch', (event) => {
  const { method, url } = event.request
  if (method === 'POST' && new URL(url).pathname === RECEIVE_PATH) return event.respondWith(receive(event.request))
  const request = parseRequest(event.request, scope.location.origin)
  const answer = request === null ? answerForApp(event, scope.location.origin) : respond(event, request)
  if (answer !== null) event.respondWith(answer)
})
scope.addEventListener('message', (event) => {
  const command = parseWorkerCommand(event.data)
  const keep = parseKeepRequest(event.data)
  if (keep !== null) event.waitUntil(updateApp(keep).catch(() => undefined))
  if (command?.streaming === 'claim') event.waitUntil(scope.clients.claim())
  if (command?.streaming === 'keep-alive') event.waitUntil(sleep(KEEP_ALIVE_MS))
})

scope.addEventListener('notificationclick', (event) => {
  const { notification } = event
  notification.close()
  if (typeof notification.data === 'string') event.waitUntil(showTab(scope.clients, notification.data))
})

/** Takes content from the share sheet of the system, and opens the home page with it. */
async function receive(request: Request): Promise<Response> {
  const isStored = await request
    .formData()
    .then(putReceived)
    .then(() => true)
    .catch(() => false)
  return Response.redirect(`/${isStored ? RECEIVED_HASH : NOT_RECEIVED_HASH}`, 303)
}

async function respond(event: FetchEvent, request: WorkerRequest): Promise<Response> {
  if (request.kind === 'refused') return withoutStream(refusal(request.status, request.why))
  if (streams >= STREAMS_MAX) return withoutStream(refusal(503, 'tooMany'))
  streams++
  let isCounted = true
  const release = () => {
    if (isCounted) streams--
    isCounted = false
  }
  try {
    const { purpose, ticket } = request
    const found = await findOwner(await candidateTabs(event, purpose), { streaming: 'open', purpose, ticket })
    if (found === null) {
      release()
      return withoutStream(refusal(404, 'tabGone'))
    }
    const { tab, port, offer } = found
    const head = headFor(purpose, offer, request.range)
    if (head.body === null || typeof head.body === 'string' || head.body.to === head.body.from) {
      port.postMessage({ kind: 'cancel' })
      port.close()
      release()
      return withoutStream(head)
    }
    let onEnd = () => {}
    event.waitUntil(new Promise<void>((resolve) => (onEnd = resolve)))
    const { stream, fail } = pullStream(port, head.body, () => {
      clearInterval(tabCheck)
      release()
      onEnd()
    })
    const tabCheck = setInterval(() => {
      void scope.clients.get(tab.id).then((client) => client ?? fail('cannot read the file: its tab is gone'))
    }, TAB_CHECK_INTERVAL_MS)
    return new Response(stream, { status: head.status, headers: head.headers })
  } catch {
    release()
    return withoutStream(refusal(500, 'failed'))
  }
}

/** The player's own tab. For a download every tab, because the frame that becomes a download belongs to none. */
async function candidateTabs(event: FetchEvent, purpose: 'stream' | 'save'): Promise<readonly Client[]> {
  if (purpose === 'save') return (await scope.clients.matchAll({ type: 'window', includeUncontrolled: true })).slice(0, TABS_MAX)
  const own = event.clientId === '' ? undefined : await scope.clients.get(event.clientId)
  return own === undefined ? [] : [own]
}

type Offer = Extract<PullReply, { kind: 'offered' }>

/** The first of these tabs that knows the ticket; `null` when none knows it or none replies in time. */
function findOwner(tabs: readonly Client[], request: OpenRequest): Promise<{ tab: Client; port: MessagePort; offer: Offer } | null> {
  return new Promise((resolve) => {
    let unanswered = tabs.length
    const timeout = setTimeout(() => resolve(null), REPLY_TIMEOUT_MS)
    const settle = (found: { tab: Client; port: MessagePort; offer: Offer } | null) => {
      clearTimeout(timeout)
      resolve(found)
    }
    if (unanswered === 0) settle(null)
    for (const tab of tabs) {
      const { port1: port, port2 } = new MessageChannel()
      port.onmessage = ({ data }) => {
        const reply = parsePullReply(data)
        port.onmessage = null
        if (reply?.kind === 'offered') settle({ tab, port, offer: reply })
        else {
          port.close()
          if (--unanswered === 0) settle(null)
        }
      }
      tab.postMessage(request, [port2])
    }
  })
}

function withoutStream(head: Head): Response {
  return new Response(typeof head.body === 'string' ? head.body : null, { status: head.status, headers: head.headers })
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
