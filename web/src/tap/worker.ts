import { pulledStream } from './pulled.ts'
import { readRequest, type Asked } from './request.ts'
import { headFor, refusal, type Head } from './response.ts'
import type { Client, FetchEvent, WorkerScope } from './worker-scope.ts'
import { readCall, readWord, type Ask, type Word } from './words.ts'

// The app's service worker. It keeps nothing and stands between nobody and the server: it answers requests for files
// that a tab gives out, by asking that tab for every piece, and leaves all others to the browser.

/** Streams at once, of all tabs; one more is refused until another ends. */
const STREAMS_MAX = 64
/** Tabs that are asked whose a ticket is. */
const TABS_MAX = 64
const ANSWERED_WITHIN = 5000
/** Between two looks whether the tab of a stream is still there. */
const LOOK_INTERVAL = 3000
/** How long a word of a tab keeps the worker awake. */
const AWAKE = 25_000

const scope = self as unknown as WorkerScope
let streams = 0

scope.addEventListener('install', (event) => event.waitUntil(scope.skipWaiting()))
scope.addEventListener('activate', (event) => event.waitUntil(scope.clients.claim()))
scope.addEventListener('fetch', (event) => {
  const asked = readRequest(event.request, scope.location.origin)
  if (asked !== null) event.respondWith(answer(event, asked))
})
scope.addEventListener('message', (event) => {
  const call = readCall(event.data)
  if (call?.tap === 'claim') event.waitUntil(scope.clients.claim())
  if (call?.tap === 'awake') event.waitUntil(passing(AWAKE))
})

async function answer(event: FetchEvent, asked: Asked): Promise<Response> {
  if (asked.kind === 'refused') return bare(refusal(asked.status, asked.why))
  if (streams >= STREAMS_MAX) return bare(refusal(503, 'tooMany'))
  streams++
  let isCounted = true
  const release = () => {
    if (isCounted) streams--
    isCounted = false
  }
  try {
    const found = await whoHas(await tabsFor(event, asked.way), { tap: 'open', way: asked.way, ticket: asked.ticket })
    if (found === null) {
      release()
      return bare(refusal(404, 'tabGone'))
    }
    const { tab, port, offer } = found
    const head = headFor(asked.way, offer, asked.range)
    if (head.body === null || typeof head.body === 'string' || head.body.to === head.body.from) {
      port.postMessage({ kind: 'cancel' })
      port.close()
      release()
      return bare(head)
    }
    let isOver = () => {}
    event.waitUntil(new Promise<void>((resolve) => (isOver = resolve)))
    const { stream, fail } = pulledStream(port, head.body, () => {
      clearInterval(looking)
      release()
      isOver()
    })
    const looking = setInterval(() => {
      void scope.clients.get(tab.id).then((there) => there ?? fail('its tab is gone'))
    }, LOOK_INTERVAL)
    return new Response(stream, { status: head.status, headers: head.headers })
  } catch {
    release()
    return bare(refusal(500, 'failed'))
  }
}

/** A player's own tab; for what is saved any, since a frame that is to become a download is nobody's yet. */
async function tabsFor(event: FetchEvent, way: 'stream' | 'save'): Promise<readonly Client[]> {
  if (way === 'save') return (await scope.clients.matchAll({ type: 'window', includeUncontrolled: true })).slice(0, TABS_MAX)
  const own = event.clientId === '' ? undefined : await scope.clients.get(event.clientId)
  return own === undefined ? [] : [own]
}

type Offer = Extract<Word, { kind: 'offered' }>

/** The first of these tabs that knows the ticket; `null` when none does, or none says so in time. */
function whoHas(tabs: readonly Client[], ask: Ask): Promise<{ tab: Client; port: MessagePort; offer: Offer } | null> {
  return new Promise((resolve) => {
    let silent = tabs.length
    const late = setTimeout(() => resolve(null), ANSWERED_WITHIN)
    const say = (found: { tab: Client; port: MessagePort; offer: Offer } | null) => {
      clearTimeout(late)
      resolve(found)
    }
    if (silent === 0) say(null)
    for (const tab of tabs) {
      const { port1: port, port2 } = new MessageChannel()
      port.onmessage = ({ data }) => {
        const word = readWord(data)
        port.onmessage = null
        if (word?.kind === 'offered') say({ tab, port, offer: word })
        else {
          port.close()
          if (--silent === 0) say(null)
        }
      }
      tab.postMessage(ask, [port2])
    }
  })
}

function bare(head: Head): Response {
  return new Response(typeof head.body === 'string' ? head.body : null, { status: head.status, headers: head.headers })
}

function passing(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
