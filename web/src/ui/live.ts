import { signal } from '@preact/signals'
import { readMessage, withMessage, writeMessage } from '../chat/room.ts'
import type { Connection as Channels } from '../channel/index.ts'
import type { Limits as AllLimits } from '../limits/index.ts'
import { defaultLimits } from '../limits/index.ts'
import type { ReadablePage } from '../private/index.ts'
import type { Publication, PublishOptions } from '../swarm/index.ts'
import type { Counts } from './sentences.ts'
import type { Connection, Limits, PageSession, PageState, RoomMessage, RoomSession, Site, Traffic, Trouble } from './site.ts'

// Fetched when a page is opened or about to be lit: who only looks at the front door needs none of it.
const loadSwarm = () => import('../swarm/index.ts')
const loadPrivate = () => import('../private/index.ts')

/** The site as the server and the swarm give it. */
export function liveSite(coming: Promise<Channels>, limitsComing: Promise<AllLimits>): Site {
  const connection = signal<Connection>('connecting')
  const retryAt = signal<number | null>(null)
  const visitors = signal<number | null>(null)
  const limits = signal<Limits | null>(null)
  const sitesBelow = signal<string | null>(null)
  const limitsTold = limitsComing.catch(() => defaultLimits)
  const report = signal<string | null>(null)
  void limitsTold.then((told) => {
    limits.value = told.all
    sitesBelow.value = told.sitesBelow
    report.value = told.report
  })
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
    sitesBelow,
    report,
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
      return pageSession(root, Promise.resolve(new ReadablePage(open(publication), key, content)), key, true)
    },
    open(cid, bytesMax = Infinity, key = null) {
      const opening = Promise.all([loadSwarm(), loadPrivate(), coming, limitsTold])
      return pageSession(cid, opening.then(([{ openPage }, { ReadablePage }, connected, known]) => {
        const pageBytesMax = Math.min(bytesMax, known.pageBytesMax)
        return new ReadablePage(openPage(cid, { connection: connected, limits: { ...known, pageBytesMax } }), key)
      }), key)
    },
    channels: coming,
    enterRoom: (room) => enterRoom(coming, room),
  }
}

function visitorsTold(payload: unknown): number | null {
  if (typeof payload !== 'object' || payload === null || !('visitors' in payload)) return null
  return typeof payload.visitors === 'number' ? payload.visitors : null
}

/** `isOpen` says that `given` opens it, as where it was made. */
function pageSession(
  cid: string,
  coming: Promise<ReadablePage>,
  given: string | null = null,
  isOpen = false,
): PageSession {
  const told = {
    state: signal<PageState>({ kind: 'joining' }),
    counts: signal<Counts | null>(null),
    key: signal(isOpen ? given : null),
    name: signal<string | null>(null),
    trouble: signal<Trouble | null>(null),
    traffic: signal<Traffic>({ receivedBytes: 0, sentBytes: 0 }),
    lastLit: signal<number | null>(null),
    tried: given,
  }
  const behind = signal<ReadablePage | null>(null)
  let stop: (() => void) | null = null
  let closed = false
  Promise.all([coming, import('./followed.ts')]).then(
    ([page, { follow }]) => {
      if (closed) {
        page.close()
        return
      }
      behind.value = page
      if (told.tried !== given && told.tried !== null) page.unlock(told.tried)
      const leave = follow(page, told)
      stop = () => {
        leave()
        page.close()
      }
    },
    (reason: unknown) => {
      told.state.value = { kind: 'refused', reason: reason instanceof Error ? reason.message : String(reason) }
    },
  )
  return {
    cid,
    ...told,
    swarm: behind,
    expect(path, whole, signal) {
      // It fails when there is no such file; whoever opens it hears that too.
      Promise.all([coming, import('./followed.ts')]).then(([page, { fetchFirst }]) => fetchFirst(page, path, whole, signal)).catch(() => undefined)
    },
    unlock(text) {
      if (text === told.tried || told.key.peek() !== null) return
      told.tried = text
      behind.peek()?.unlock(text)
    },
    close() {
      closed = true
      stop?.()
    },
  }
}

function enterRoom(coming: Promise<Channels>, room: string): RoomSession {
  const messages = signal<readonly RoomMessage[]>([])
  const state = signal<'joining' | 'joined' | { refused: string | null }>('joining')
  const joining = coming.then((channels) => channels.join(`rooms:${room}`, ['new_msg'], {
    joined: () => (state.value = 'joined'),
    lost: () => (state.value = 'joining'),
    refused: (response) => (state.value = { refused: reasonOf(response) }),
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
      const reply = await topic.push('new_msg', writeMessage(user, body, new Date()))
      return reply.status === 'error' ? { refused: reasonOf(reply.response) } : reply.status
    },
    leave: () => void joining.then((topic) => topic.leave(), () => undefined),
  }
}

function reasonOf(response: unknown): string | null {
  if (typeof response !== 'object' || response === null || !('reason' in response)) return null
  return typeof response.reason === 'string' ? response.reason : null
}
