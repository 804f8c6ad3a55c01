import { signal } from '@preact/signals'
import type { Connection as Channels } from '@watchfire/client/connection'
import type { Limits as AllLimits } from '@watchfire/pages/limits'
import { defaultLimits } from '@watchfire/pages/limits'
import type { ReadablePage } from '@watchfire/pages/encryption'
import type { Counts, OwnCopy } from '../ui/sentences.ts'
import type { Connection, Limits, PageSession, PageState, Site, Traffic, PageWarning } from '../ui/site.ts'
import type { Shared } from './swarm-pages.ts'

// Loaded when a page is opened or about to be shared; the home page alone does not need it.
const loadPages = () => import('./whole-page.ts')

/** The site on a real server and swarm. */
export function liveSite(coming: Promise<Channels>, limitsComing: Promise<AllLimits>): Site {
  const connection = signal<Connection>('connecting')
  const retryAt = signal<number | null>(null)
  const visitors = signal<number | null>(null)
  const limits = signal<Limits | null>(null)
  const sitesBelow = signal<string | null>(null)
  const loadedLimits = limitsComing.catch(() => defaultLimits)
  const report = signal<string | null>(null)
  const hasRooms = signal(false)
  void loadedLimits.then((loaded) => {
    hasRooms.value = loaded.rooms
    limits.value = loaded.all
    sitesBelow.value = loaded.sitesBelow
    report.value = loaded.report
  })
  const follow = (state: Channels['state'], wait: number | null = null) => {
    connection.value = state === 'offline' ? 'lost' : state
    retryAt.value = wait === null ? null : performance.now() + wait
  }
  const start = (channels: Channels) => {
    channels.subscribe(follow)
    follow(channels.state)
    channels.join('site', ['visitors'], {
      joined: (response) => (visitors.value = visitorCount(response) ?? visitors.peek()),
      message: (_, payload) => (visitors.value = visitorCount(payload) ?? visitors.peek()),
      lost: () => (visitors.value = null),
    })
  }
  coming.then(start, () => follow('offline', null))
  const swarmDeps = Promise.all([coming, loadedLimits]).then(([connection, limits]) => ({ connection, limits }))
  swarmDeps.catch(() => undefined)

  return {
    connection,
    retryAt,
    visitors,
    limits,
    sitesBelow,
    report,
    hasRooms,
    prepare: () => void loadPages().catch(() => undefined),
    async share(files, options) {
      const [pages, deps] = await Promise.all([loadPages(), swarmDeps])
      const shared = await pages.share(files, options, deps)
      const { page } = shared
      return pageSession(page.root, Promise.resolve(page), page.key, shared)
    },
    open(cid, bytesMax = Infinity, key = null) {
      const opening = Promise.all([loadPages(), swarmDeps])
      return pageSession(
        cid,
        opening.then(([pages, deps]) => pages.open(cid, bytesMax, key, deps)),
        key,
      )
    },
    channels: coming,
  }
}

function visitorCount(payload: unknown): number | null {
  const { visitors } = Object(payload) as { visitors?: unknown }
  return typeof visitors === 'number' ? visitors : null
}

/** `shared`: the page was created here, so `initialKey` opens it. */
function pageSession(
  cid: string,
  coming: Promise<ReadablePage>,
  initialKey: string | null = null,
  shared: Shared | null = null,
): PageSession {
  const signals = {
    state: signal<PageState>({ kind: 'joining' }),
    have: signal<OwnCopy>('none'),
    counts: signal<Counts | null>(null),
    key: signal(shared && initialKey),
    name: signal<string | null>(null),
    warning: signal<PageWarning | null>(null),
    traffic: signal<Traffic>({ receivedBytes: 0, sentBytes: 0 }),
    lastAvailable: signal<number | null>(null),
    lastKeyTried: initialKey,
  }
  const readable = signal<ReadablePage | null>(null)
  let stop: (() => void) | null = null
  let closed = false
  Promise.all([coming, loadPages()]).then(
    ([page, { follow }]) => {
      if (closed) {
        page.close()
        return
      }
      readable.value = page
      if (signals.lastKeyTried !== initialKey && signals.lastKeyTried !== null) page.unlock(signals.lastKeyTried)
      const leave = follow(page, signals)
      stop = () => {
        leave()
        page.close()
      }
    },
    (reason: unknown) => {
      signals.state.value = { kind: 'refused', reason: reason instanceof Error ? reason.message : String(reason) }
    },
  )
  return {
    cid,
    ...signals,
    survivesReload: shared?.survivesReload ?? true,
    swarm: readable,
    prefetch(path, whole, signal) {
      // It fails when there is no such file; opening the file reports the same error.
      Promise.all([coming, loadPages()])
        .then(([page, { fetchFirst }]) => fetchFirst(page, path, whole, signal))
        .catch(() => undefined)
    },
    unlock(text) {
      if (text === signals.lastKeyTried || signals.key.peek() !== null) return
      signals.lastKeyTried = text
      readable.peek()?.unlock(text)
    },
    close() {
      closed = true
      stop?.()
      shared?.copy?.clear()
    },
  }
}
