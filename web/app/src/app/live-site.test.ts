// @vitest-environment happy-dom
import { joinRoom } from '../chat/room.ts'
import { signal } from '@preact/signals'
import { describe, expect, it, vi } from 'vitest'
import type { Connection as Channels, Topic, TopicEvents } from '@watchfire/client/connection'
import { defaultLimits } from '@watchfire/pages/limits'
import type { ReadablePage } from '@watchfire/pages/encryption'
import type { Entry, Listing, LiveFeed, PageState as SwarmState } from '@watchfire/pages/swarm'
import { ContentCache, countsOf, follow, pageState, warningOf } from './page-signals.ts'
import { liveSite } from './live-site.ts'
import { haveSentence, heldSentence, lookingSentence, type Counts, type OwnCopy } from '../ui/sentences.ts'
import type { PageState, PageWarning } from '../ui/site.ts'

const swarm = (files: Entry[] | null, isFinal = true, links = 0) => ({
  listing: () => files && { files, links, hasNames: true, isFinal },
  file: (path: string) => Promise.resolve(new Blob([path])),
})
const nothing = swarm(null)
const none = { watching: 0, holders: 0, partial: 0 }

function state(part: Partial<SwarmState>): SwarmState {
  return {
    phase: 'searching',
    have: part.phase === 'complete' ? 'all' : 'none',
    presence: { kind: 'joined' },
    counts: { watching: 1, holders: 0, partial: 0, nodes: none },
    progress: { blocksDone: 0, blocksTotal: null, bytesDone: 0, bytesTotal: null },
    peers: [],
    receivedBytes: 0,
    sentBytes: 0,
    peersDropped: 0,
    sinceAvailable: null,
    problems: [],
    ...part,
  }
}

const progress = { blocksDone: 1, blocksTotal: 2, bytesDone: 10, bytesTotal: 20 }
const peer = (have: 'all' | 'some' | 'none', path: 'relay' | 'direct' = 'relay') =>
  ({ id: have, kind: 'tab', have, path, direct: { kind: 'untried' } as const, blocks: null, receivedBytes: 0, sentBytes: 0 }) as const

describe('a page', () => {
  it('is searched for, then loaded from peers that have some of it', () => {
    expect(pageState(state({}), nothing)).toEqual({ kind: 'joining' })
    const peers = [peer('all'), peer('some', 'direct'), peer('none', 'direct')]
    expect(pageState(state({ phase: 'loading', progress, peers }), nothing)).toEqual({
      kind: 'loading',
      bytes: 10,
      total: 20,
      peers: 2,
      direct: 1,
      nodes: 0,
    })
  })

  it('counts the copies that this tab knows of before the server counts them', () => {
    const counts = { watching: 2, holders: 1, partial: 1, nodes: none }
    const counted = (now: Parameters<typeof state>[0]) => {
      const { watching, holders, partial } = countsOf(state({ counts, ...now }), null)
      return [watching, holders, partial]
    }
    expect(counted({ phase: 'complete', peers: [peer('all')] })).toEqual([2, 2, 0])
    expect(counted({ phase: 'loading', peers: [peer('all')] })).toEqual([2, 1, 1])
    expect(counted({ phase: 'complete', peers: [peer('none')] })).toEqual([2, 1, 1])
    // A peer joined that is not counted yet.
    expect(counted({ phase: 'complete', peers: [peer('all'), peer('all')] })).toEqual([2, 2, 0])
    const same = countsOf(state({ counts }), null)
    expect(countsOf(state({ counts: { ...counts } }), same)).toBe(same)
  })

  it('has as many nodes as the server counts, connected to this tab or not', () => {
    const counts = { watching: 40, holders: 30, partial: 5, nodes: { watching: 20, holders: 12, partial: 3 } }
    const now = countsOf(state({ counts, peers: [peer('all'), { ...peer('some'), kind: 'node' }] }), null)
    expect(now).toEqual(counts)
    expect(lookingSentence(now)).toBe('20 people are looking at it.')
    expect(heldSentence(now, 'some')).toBe('18 people and 12 computers have all of it. Parts are with 2 people and 3 computers.')
    // One of them has all of it by now, and the server has not counted that yet.
    const behind = { watching: 2, holders: 0, partial: 1, nodes: { watching: 1, holders: 0, partial: 1 } }
    const known = countsOf(state({ counts: behind, peers: [{ ...peer('all'), kind: 'node' }] }), null)
    expect(known).toEqual({ watching: 2, holders: 1, partial: 1, nodes: { watching: 1, holders: 1, partial: 0 } })
    const fewer = { ...counts, nodes: { ...counts.nodes, watching: 19 } }
    expect(countsOf(state({ counts: fewer }), now)).not.toBe(now)
  })

  it('waits while no peer has it, and keeps the received blocks', () => {
    expect(pageState(state({ phase: 'unavailable', progress }), nothing)).toEqual({
      kind: 'waiting',
      bytes: 10,
      total: 20,
    })
  })

  it('has no list of files while a name may be missing, and then has all of them', () => {
    const loading = state({ phase: 'loading', progress })
    const file = (path: string) => ({ path, size: 3, complete: true })
    const unnamed = { ...swarm([]), listing: () => ({ files: [file('a')], links: 0, hasNames: false, isFinal: false }) }
    expect(pageState(loading, unnamed)).toMatchObject({ kind: 'loading', content: undefined })
    const content = { kind: 'directory', files: [{ path: 'a' }, { path: 'b' }], links: 2 }
    expect(pageState(loading, swarm([file('a'), file('b')], true, 2))).toMatchObject({ kind: 'loading', content })
  })

  it('lists a folder before the sizes of its files are known, and each file as one object once its own is', () => {
    let files: Entry[] = [
      { path: 'a.txt', size: 3, complete: true },
      { path: 'film.webm', size: null, about: 5_000_000, complete: false },
      { path: 'talk.ogg', size: null, complete: false },
    ]
    let isFinal = false
    const page = { ...nothing, listing: () => ({ files, links: 0, hasNames: true, isFinal }) }
    const cache = new ContentCache()
    const first = cache.soFar(page)
    if (first?.kind !== 'directory') throw new Error('not a directory')
    expect(first.isPartial).toBe(true)
    expect(first.files.map(({ path, size, isEstimate }) => [path, size, isEstimate])).toEqual([
      ['a.txt', 3, undefined],
      ['film.webm', 5_000_000, true],
      ['talk.ogg', 0, true],
    ])
    files = files.map((file) => ({ ...file, size: file.size ?? 4_990_000 }))
    isFinal = true
    const second = cache.all(page)
    if (second.kind !== 'directory') throw new Error('not a directory')
    expect(second).toMatchObject({ files: [{}, { size: 4_990_000 }, { size: 4_990_000 }] })
    expect([second.isPartial, second.files[1]?.isEstimate]).toEqual([undefined, undefined])
    expect(second.files[0]).toBe(first.files[0])
    expect(cache.all(page)).toBe(second)
  })

  it('is one file when its only entry has no path', async () => {
    const held = pageState(state({ phase: 'complete' }), swarm([{ path: '', size: 3, complete: true }]))
    expect(held).toMatchObject({ kind: 'held', content: { kind: 'file', size: 3 } })
  })

  it('is a directory when its files have paths, even a single one', async () => {
    const held = pageState(state({ phase: 'complete' }), swarm([{ path: 'a/b', size: 3, complete: true }]))
    if (held.kind !== 'held' || held.content.kind !== 'directory') throw new Error('not a directory')
    const [file] = held.content.files
    expect(file?.path).toBe('a/b')
    expect(await (await file?.blob())?.text()).toBe('a/b')
  })

  it('is live when its session is, and keeps its files while it grows', () => {
    const feedOf = (count: number): LiveFeed => ({
      ...{ title: 'Log', timeMs: 0, isComplete: true, isOurs: false, survivesReload: false, splitAt: null, invalidAt: null },
      entries: Array.from({ length: count }, (_, i) => ({ number: i + 1, timeMs: 0, form: 'text', name: '', path: `${i + 1}/text.txt` })),
    })
    let feed = feedOf(1)
    const files = () => feed.entries.map(({ path }) => ({ path, size: 3, complete: true }))
    const growing = {
      live: () => feed,
      listing: () => ({ files: files(), links: 0, hasNames: true, isFinal: true }),
      file: () => Promise.reject(),
    }
    const cache = new ContentCache()
    const first = cache.all(growing)
    expect(first).toMatchObject({ kind: 'live', files: [{ path: '1/text.txt' }] })
    expect(cache.all(growing)).toBe(first)
    feed = feedOf(2)
    const second = cache.all(growing)
    if (first.kind !== 'live' || second.kind !== 'live') throw new Error('not live')
    expect(second.files.map(({ path }) => path)).toEqual(['1/text.txt', '2/text.txt'])
    expect(second.files[0]).toBe(first.files[0])
  })

  it('that cannot be shown has a reason', () => {
    const problems = [
      { fatal: false, sentence: 'a' },
      { fatal: true, sentence: 'Not a CID.' },
    ]
    expect(pageState(state({ phase: 'failed', problems }), nothing)).toEqual({
      kind: 'refused',
      reason: 'Not a CID.',
    })
  })

  it('that the server rejects has a reason, unless it is here already', () => {
    const presence = { kind: 'refused', reason: 'page full' } as const
    expect(pageState(state({ presence }), nothing)).toEqual({ kind: 'refused', reason: 'page full' })
    const held = state({ phase: 'complete', presence })
    expect(pageState(held, swarm([])).kind).toBe('held')
    expect(warningOf(held)).toEqual({ kind: 'rejected', reason: 'page full' })
  })
})

describe('the signals of a page', () => {
  const page = (listing: Listing) => {
    let report: (now: SwarmState) => void = () => undefined
    const readable = {
      privacy: { kind: 'public' },
      state: state({}),
      listing: () => listing,
      live: () => null,
      subscribe(listener: typeof report) {
        report = listener
        return () => undefined
      },
    } as Partial<ReadablePage> as ReadablePage
    const signals = {
      state: signal<PageState>({ kind: 'joining' }),
      have: signal<OwnCopy>('none'),
      counts: signal<Counts | null>(null),
      key: signal<string | null>(null),
      name: signal<string | null>(null),
      warning: signal<PageWarning | null>(null),
      traffic: signal({ receivedBytes: 0, sentBytes: 0 }),
      lastAvailable: signal<number | null>(null),
      lastKeyTried: null,
    }
    follow(readable, signals)
    return { signals, report }
  }
  const one = { files: [{ path: '', size: 3, complete: true }], links: 0, hasNames: true, isFinal: true }
  const alone = { watching: 1, holders: 1, partial: 0, nodes: none }

  it('do not count this tab as a holder once a shared file has changed', () => {
    const { signals, report } = page(one)
    report(state({ phase: 'complete', counts: alone }))
    expect([signals.have.value, signals.counts.value?.holders]).toEqual(['all', 1])
    const { value: before } = signals.state
    report(state({ phase: 'complete', have: 'some', counts: { ...alone, holders: 0, partial: 1 } }))
    expect([signals.have.value, signals.counts.value?.holders]).toEqual(['some', 0])
    expect(haveSentence(signals.counts.value ?? alone, signals.have.value)).toBe('Nobody has this page right now')
    expect(signals.state.value).toBe(before)
  })

  it('have no counts while the topic is not joined, because nobody can load the page from here', () => {
    const { signals, report } = page(one)
    report(state({ phase: 'complete', counts: alone }))
    report(state({ phase: 'complete', counts: alone, presence: { kind: 'offline' } }))
    expect(signals.counts.value).toBeNull()
    report(state({ phase: 'complete', counts: alone }))
    expect(signals.counts.value?.watching).toBe(1)
  })
})

/** The swarm's code is loaded when it is first needed. That can take long on a busy machine. */
const LOAD_MS = 15_000

describe('the site', () => {
  function fakeSite() {
    const joined = new Map<string, TopicEvents>()
    const pushed: unknown[] = []
    const topic: Topic = {
      isJoined: () => true,
      push: (event, payload) => {
        pushed.push([event, payload])
        return Promise.resolve({ status: 'error', response: { reason: 'too many messages' } })
      },
      leave: () => undefined,
    }
    const channels = Promise.resolve({
      state: 'open' as const,
      subscribe: () => () => undefined,
      join(name: string, _: readonly string[], events: TopicEvents) {
        joined.set(name, events)
        return topic
      },
      verify: () => Promise.resolve(),
      connect: () => ({}) as never,
      close: () => undefined,
    })
    return { site: liveSite(channels, Promise.resolve(defaultLimits)), joined, pushed }
  }

  it('reports a lost connection with the time of the next attempt, and a refused one without', async () => {
    let listener: Parameters<Channels['subscribe']>[0] = () => undefined
    const channels: Channels = {
      state: 'connecting',
      subscribe: (given) => {
        listener = given
        return () => undefined
      },
      join: () => ({ isJoined: () => false, push: () => Promise.resolve({ status: 'offline' }), leave: () => undefined }),
      verify: () => Promise.resolve(),
      connect: () => ({}) as never,
      close: () => undefined,
    }
    const site = liveSite(Promise.resolve(channels), Promise.resolve(defaultLimits))
    await Promise.resolve()
    listener('offline', 250)
    expect(site.connection.value).toBe('lost')
    expect(site.retryAt.value).not.toBeNull()
    listener('refused', null)
    expect(site.connection.value).toBe('refused')
    expect(site.retryAt.value).toBeNull()
  })

  it('takes its visitor count from the server, and ignores other payloads', async () => {
    const { site, joined } = fakeSite()
    await Promise.resolve()
    const events = joined.get('site')
    events?.joined?.({ visitors: 3 })
    expect(site.visitors.value).toBe(3)
    events?.message?.('visitors', { visitors: 'many' })
    events?.message?.('visitors', null)
    expect(site.visitors.value).toBe(3)
    events?.message?.('visitors', { visitors: 4 })
    expect(site.visitors.value).toBe(4)
    expect(site.connection.value).toBe('open')
    events?.lost?.()
    expect(site.visitors.value).toBeNull()
  })

  it(
    'rejects invalid links with a sentence',
    async () => {
      const { site } = fakeSite()
      const { state } = site.open('not-a-cid')
      expect(state.value).toEqual({ kind: 'joining' })
      await vi.waitFor(
        () =>
          expect(state.value).toEqual({
            kind: 'refused',
            reason: 'This link is not valid: the part after /p/ is not a CID. ' + 'Check that the link is complete.',
          }),
        { timeout: LOAD_MS },
      )
    },
    2 * LOAD_MS,
  )

  it('has chat rooms that report rejected messages', async () => {
    const { site, joined } = fakeSite()
    const room = joinRoom(site.channels, 'tea', () => ' Bo ')
    await Promise.resolve()
    const events = joined.get('rooms:tea')
    expect(room.state.value).toBe('joining')
    expect(events?.params?.()).toEqual({ user: 'Bo' })
    events?.joined?.({ count: 1, users: ['Bo'] })
    expect(room.state.value).toBe('joined')
    events?.message?.('user_entered', { user: 'Ada' })
    events?.message?.('members', { count: 2, users: ['Bo', 'Ada'] })
    events?.message?.('members', 'noise')
    expect(room.members.value).toEqual({ count: 2, users: ['Bo', 'Ada'] })
    events?.message?.('new_msg', { user: 'Ada', body: 'hi' })
    events?.message?.('new_msg', 'noise')
    expect(room.messages.value.map(({ body }) => body)).toEqual([null, 'hi'])
    expect(await room.send('Bo', 'hello')).toEqual({ refused: 'too many messages' })
  })
})
