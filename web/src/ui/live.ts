import { signal } from '@preact/signals'
import { readMessage, withMessage, writeMessage } from '../chat/room.ts'
import type { Connection as Channels, Reply } from '../channel/index.ts'
import type { ContentError } from '../content/index.ts'
import type { Limits as AllLimits } from '../limits/index.ts'
import { defaultLimits } from '../limits/index.ts'
import type { ReadablePage } from '../private/index.ts'
import type { Entry, PageSession as Swarm, PageState as SwarmState, Publication, PublishOptions } from '../swarm/index.ts'
import type { Counts } from './sentences.ts'
import type {
  Connection, Limits, PageContent, PageSession, PageState, RoomMessage, RoomSession, Site, Streamed, Traffic,
} from './site.ts'

// Fetched when a page is opened or about to be lit: who only looks at the front door needs none of it.
const loadSwarm = () => import('../swarm/index.ts')
const loadPrivate = () => import('../private/index.ts')

/** The site as the server and the swarm give it. */
export function liveSite(coming: Promise<Channels>, limitsComing: Promise<AllLimits>): Site {
  const connection = signal<Connection>('connecting')
  const retryAt = signal<number | null>(null)
  const visitors = signal<number | null>(null)
  const limits = signal<Limits | null>(null)
  const limitsTold = limitsComing.catch(() => defaultLimits)
  void limitsTold.then((told) => (limits.value = told.all))
  const follow = (state: Channels['state'], wait: number | null = null) => {
    connection.value = state === 'offline' ? 'lost' : state
    retryAt.value = wait === null ? null : performance.now() + wait
  }
  const start = (channels: Channels) => {
    channels.subscribe(follow)
    follow(channels.state)
    channels.join('site', ['visitors'], {
      joined: (response) => (visitors.value = visitorsTold(response) ?? visitors.peek()),
      message: (_, payload) => (visitors.value = visitorsTold(payload) ?? visitors.peek()),
    })
  }
  coming.then(start, () => follow('offline', null))

  return {
    connection,
    retryAt,
    visitors,
    limits,
    prepare: () => void Promise.all([loadSwarm(), loadPrivate()]).catch(() => undefined),
    async kindle(files, { signal: stop, onProgress, sealed }) {
      const [swarm, connected, known] = await Promise.all([loadSwarm(), coming, limitsTold])
      const { openPage, publish } = swarm
      const { publishPrivate, ReadablePage } = await loadPrivate()
      const wish: PublishOptions = {
        pageBytesMax: known.pageBytesMax,
        signal: stop,
        onProgress: ({ bytesDone }) => onProgress(bytesDone),
      }
      const open = (publication: Publication) =>
        openPage(publication.root, { connection: connected, limits: known, publication })
      if (sealed === undefined) {
        const publication = await publish(files, wish)
        return pageSession(publication.root, Promise.resolve(new ReadablePage(open(publication), null, 'public')))
      }
      const publication = await publishPrivate(files, { ...wish, name: sealed.name })
      const { root, key, content } = publication
      return pageSession(root, Promise.resolve(new ReadablePage(open(publication), key, content)), key)
    },
    open(cid, bytesMax = Infinity, key = null) {
      const opening = Promise.all([loadSwarm(), loadPrivate(), coming, limitsTold])
      return pageSession(cid, opening.then(([{ openPage }, { ReadablePage }, connected, known]) => {
        try {
          const pageBytesMax = Math.min(bytesMax, known.pageBytesMax)
          return new ReadablePage(openPage(cid, { connection: connected, limits: { ...known, pageBytesMax } }), key)
        } catch (reason) {
          throw new Error(`This link is not one of ours: ${linkProblem(reason)}`, { cause: reason })
        }
      }), key)
    },
    channels: coming,
    enterRoom: (room) => enterRoom(coming, room),
  }
}

/** What is wrong with a link that names no page; the swarm throws only for that. */
function linkProblem(reason: unknown): string {
  const problem = reason instanceof Error && 'problem' in reason ? (reason as ContentError).problem : null
  if (problem?.kind === 'unsupported') return `it names content of a kind we cannot read, ${problem.what}.`
  return 'what follows /p/ is not a CID. Perhaps a part of it was lost on the way.'
}

function visitorsTold(payload: unknown): number | null {
  if (typeof payload !== 'object' || payload === null || !('visitors' in payload)) return null
  return typeof payload.visitors === 'number' ? payload.visitors : null
}

function pageSession(cid: string, coming: Promise<ReadablePage>, given: string | null = null): PageSession {
  const state = signal<PageState>({ kind: 'joining' })
  const counts = signal<Counts | null>(null)
  const trouble = signal<string | null>(null)
  const key = signal<string | null>(null)
  const name = signal<string | null>(null)
  let tried = given
  const traffic = signal<Traffic>({ receivedBytes: 0, sentBytes: 0 })
  const lastLit = signal<number | null>(null)
  const behind = signal<Swarm | null>(null)
  const content = new ContentTold()
  let opened: ReadablePage | null = null
  let stop: (() => void) | null = null
  let closed = false
  const follow = (swarm: ReadablePage) => {
    if (closed) {
      swarm.close()
      return
    }
    behind.value = swarm
    opened = swarm
    if (tried !== given && tried !== null) swarm.unlock(tried)
    const unsubscribe = swarm.subscribe((now) => {
      // What is held stays held, and stays the same object, so that it is not drawn anew.
      if (state.peek().kind !== 'held') state.value = lockOf(swarm, pageState(now, swarm, content), state.peek())
      if (swarm.seal.kind === 'open') {
        key.value = tried
        name.value = swarm.seal.content.index.name || null
      }
      trouble.value = troubleOf(now)
      traffic.value = trafficOf(now, traffic.peek())
      lastLit.value = dateOf(now.lastLit, lastLit.peek())
      if (now.presence.kind === 'joined') counts.value = countsOf(now, counts.peek())
    })
    stop = () => {
      unsubscribe()
      swarm.close()
    }
  }
  coming.then(follow, (reason: unknown) => {
    state.value = { kind: 'refused', reason: reason instanceof Error ? reason.message : String(reason) }
  })
  return {
    cid,
    state,
    counts,
    key,
    name,
    trouble,
    traffic,
    lastLit,
    swarm: behind,
    expect(path, signal) {
      // It fails when there is no such file; whoever opens it hears that too.
      coming.then((swarm) => swarm.open(path, { signal })).catch(() => undefined)
    },
    unlock(text) {
      if (text === tried || key.peek() !== null) return
      tried = text
      opened?.unlock(text)
    },
    close() {
      closed = true
      stop?.()
    },
  }
}

/** How a page stands, or, of a private one that is closed, that it is; the same as before stays the same object. */
function lockOf({ seal }: ReadablePage, state: PageState, before: PageState): PageState {
  if (seal.kind !== 'closed' || state.kind === 'refused') return state
  const reason = seal.problem?.message ?? null
  const coming = state.kind === 'loading' || state.kind === 'waiting' ? state : null
  const same = before.kind === 'locked' && before.reason === reason && before.coming === coming
  return same ? before : { kind: 'locked', reason, coming }
}

/** The state of the swarm in the words of a page. */
export function pageState(now: SwarmState, swarm: Files, content = new ContentTold()): PageState {
  const { phase, presence, progress, peers, problems } = now
  const bytes = progress.bytesDone
  const total = progress.bytesTotal
  switch (phase) {
    case 'failed':
      return { kind: 'refused', reason: problems.findLast(({ fatal }) => fatal)?.sentence ?? 'It failed.' }
    case 'complete':
      return { kind: 'held', content: content.all(swarm) }
    case 'searching':
      if (presence.kind === 'refused') return { kind: 'refused', reason: presence.reason }
      return { kind: 'joining' }
    case 'loading': {
      const asked = peers.filter(({ have }) => have !== 'none')
      const direct = asked.filter(({ path }) => path === 'direct').length
      return { kind: 'loading', bytes, total, peers: asked.length, direct, content: content.soFar(swarm) ?? undefined }
    }
    case 'dark':
      if (presence.kind === 'refused') return { kind: 'refused', reason: presence.reason }
      return { kind: 'waiting', bytes, total, content: content.soFar(swarm) ?? undefined }
  }
}

/** What goes wrong while the page goes on: what the server refuses, or else the latest problem. */
export function troubleOf({ presence, problems }: SwarmState): string | null {
  if (presence.kind === 'refused') return `The server does not let others find this tab: ${presence.reason}.`
  return problems.findLast(({ fatal }) => !fatal)?.sentence ?? null
}

/** What the files of a page are asked of. */
type Files = Pick<Swarm, 'entries' | 'file'> & Partial<Pick<Swarm, 'root' | 'open' | 'state'>>

/** Between two looks at a page whose files are not all known. */
const LISTED_INTERVAL = 500

/** The files of a page, told as the same objects from when they are known, so that what plays is not begun anew. */
class ContentTold {
  #content: PageContent | null = null
  #listedAt = -Infinity

  all(swarm: Files): PageContent {
    this.#content ??= contentOf(swarm.entries() ?? [], swarm)
    return this.#content
  }

  /** `null` while there is a file whose size nobody knows. */
  soFar(swarm: Files): PageContent | null {
    if (this.#content !== null || performance.now() - this.#listedAt < LISTED_INTERVAL) return this.#content
    const entries = swarm.entries()
    if (entries !== null && entries.length > 0 && entries.every(({ size }) => size !== null)) {
      this.#content = contentOf(entries, swarm)
    } else if (entries !== null) this.#listedAt = performance.now()
    return this.#content
  }
}

function contentOf(entries: readonly Entry[], swarm: Files): PageContent {
  const [only] = entries
  const bytesOf = ({ path, size }: Entry) => ({ size: size ?? 0, blob: () => swarm.file(path), ...streamedOf(swarm, path) })
  if (entries.length === 1 && only !== undefined && only.path === '') {
    return { kind: 'file', ...bytesOf(only) }
  }
  return { kind: 'directory', files: entries.map((entry) => ({ path: entry.path, ...bytesOf(entry) })) }
}

function streamedOf(swarm: Files, path: string): { streamed: Streamed } | undefined {
  const { root, open } = swarm
  if (root === undefined || open === undefined) return undefined
  const isWhole = () => swarm.state?.phase === 'complete'
  return { streamed: { cid: root, isWhole, open: (options) => open.call(swarm, path, options) } }
}

/** Counts are told often and change seldom; the same ones stay the same object. */
function countsOf({ counts }: SwarmState, before: Counts | null): Counts {
  const same = before !== null && before.watching === counts.watching &&
    before.holders === counts.holders && before.partial === counts.partial
  return same ? before : { ...counts }
}

/** The date of something so long ago; the one from before when it is that, but for the time it took to tell. */
function dateOf(ago: number | null, before: number | null): number | null {
  if (ago === null) return null
  const date = Date.now() - ago
  return before !== null && Math.abs(date - before) < 1000 ? before : date
}

/** The same as before stays the same object. */
function trafficOf({ receivedBytes, sentBytes }: SwarmState, before: Traffic): Traffic {
  const same = before.receivedBytes === receivedBytes && before.sentBytes === sentBytes
  return same ? before : { receivedBytes, sentBytes }
}

function enterRoom(coming: Promise<Channels>, room: string): RoomSession {
  const messages = signal<readonly RoomMessage[]>([])
  const state = signal<'joining' | 'joined' | { refused: string }>('joining')
  const joining = coming.then((channels) => channels.join(`rooms:${room}`, ['new_msg'], {
    joined: () => (state.value = 'joined'),
    lost: () => (state.value = 'joining'),
    refused: (response) => (state.value = { refused: reasonOf(response) ?? 'no reason given' }),
    message: (_, payload) => {
      const message = readMessage(payload, new Date())
      if (message !== null) messages.value = withMessage(messages.peek(), message)
    },
  }))
  return {
    messages,
    state,
    async say(user, body) {
      const topic = await joining
      const problem = problemOf(await topic.push('new_msg', writeMessage(user, body, new Date())))
      if (problem !== null) throw new Error(problem)
    },
    leave: () => void joining.then((topic) => topic.leave(), () => undefined),
  }
}

/** What went wrong with a push, in one sentence; `null` when nothing did. */
function problemOf(reply: Reply): string | null {
  switch (reply.status) {
    case 'ok':
      return null
    case 'error':
      return `The server refused it: ${reasonOf(reply.response) ?? 'it gave no reason'}.`
    case 'timeout':
      return 'The server did not answer in time.'
    case 'offline':
      return 'There is no connection to the server at the moment.'
  }
}

function reasonOf(response: unknown): string | null {
  if (typeof response !== 'object' || response === null || !('reason' in response)) return null
  return typeof response.reason === 'string' ? response.reason : null
}
