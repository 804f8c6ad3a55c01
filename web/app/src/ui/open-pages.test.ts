import { signal } from '@preact/signals'
import { describe, expect, it } from 'vitest'
import type { LiveFeed } from '@watchfire/pages/swarm'
import { OpenPages, PAGES_MAX, wouldEnd } from './open-pages.ts'
import type { Counts } from './sentences.ts'
import type { PageSession, PageState, Site } from './site.ts'

const HELD: PageState = { kind: 'held', content: { kind: 'directory', files: [], links: 0 } }
const LOADING: PageState = { kind: 'loading', bytes: 1, total: 2, peers: 1, direct: 0, nodes: 0 }

function world(state: PageState, counts: Counts | null = null) {
  const closed: string[] = []
  const unlocked: string[] = []
  const isHere = state.kind === 'held' || (state.kind === 'locked' && state.coming === null)
  const page = (cid: string): PageSession => ({
    cid,
    state: signal(state),
    have: signal(isHere ? 'all' : 'some'),
    counts: signal(counts),
    warning: signal(null),
    lastAvailable: signal(null),
    survivesReload: true,
    swarm: signal(null),
    traffic: signal({ receivedBytes: 0, sentBytes: 0 }),
    key: signal(null),
    name: signal(null),
    unlock: (key) => unlocked.push(key),
    close: () => closed.push(cid),
  })
  const opened: string[] = []
  const site = {
    open(cid: string) {
      opened.push(cid)
      return page(cid)
    },
  } as unknown as Site
  return { openPages: new OpenPages(site), page, opened, closed, unlocked }
}

describe('a page in a tab', () => {
  it('is opened once, however often it is viewed', () => {
    const { openPages, opened } = world(HELD)
    expect(openPages.open('a', 'x.md')).toBe(openPages.open('a', null))
    expect(opened).toEqual(['a'])
  })

  it('is unlocked by a link with a key, without being loaded again', () => {
    const { openPages, opened, unlocked } = world({ kind: 'locked', reason: null, coming: null })
    openPages.open('a', null)
    openPages.open('a', null, 'the key')
    expect(opened).toEqual(['a'])
    expect(unlocked).toEqual(['the key'])
  })

  it('stays shared although its reader here has no key', () => {
    const { openPages, closed } = world({ kind: 'locked', reason: null, coming: null })
    openPages.open('a', null)
    openPages.leave('a')
    expect(closed).toEqual([])
  })

  it('stays shared when its reader leaves its view', () => {
    const { openPages, closed } = world(HELD)
    openPages.open('a', null)
    openPages.leave('a')
    expect(closed).toEqual([])
    expect(openPages.list.value).toHaveLength(1)
  })

  it('that is incomplete is closed when its reader leaves its view', () => {
    const { openPages, closed } = world(LOADING)
    openPages.open('a', null)
    openPages.leave('a')
    expect(closed).toEqual(['a'])
    expect(openPages.list.value).toEqual([])
  })

  it('whose key is here stays when its publisher leaves its view, although an entry is missing after a reload', () => {
    const feed = {
      title: '',
      timeMs: 0,
      entries: [],
      isComplete: false,
      isOurs: true,
      survivesReload: true,
      splitAt: null,
      invalidAt: null,
    }
    const { openPages, closed } = world({
      kind: 'loading',
      bytes: 1,
      total: 2,
      peers: 1,
      direct: 0,
      nodes: 0,
      content: { kind: 'live', feed, files: [] },
    })
    openPages.open('a', null)
    openPages.leave('a')
    expect(closed).toEqual([])
  })

  it('that is created again replaces the first one', () => {
    const { openPages, page, closed } = world(HELD)
    openPages.open('a', null)
    openPages.keep(page('a'), 'x.md')
    expect(closed).toEqual(['a'])
    expect(openPages.list.value).toMatchObject([{ filename: 'x.md', isOwn: true }])
  })
})

describe('a tab with its maximum number of pages', () => {
  it('closes the one that was only read, longest ago, for another', () => {
    const { openPages, closed } = world(HELD)
    for (let n = 0; n < 100; n++) openPages.open(`${n}`, null)
    expect(openPages.list.value).toHaveLength(PAGES_MAX)
    openPages.open('68', null)
    closed.length = 0
    openPages.open('100', null)
    expect(closed).toEqual(['69'])
  })

  it('closes none that was created or chosen here, and takes no more of these', () => {
    const { openPages, page, closed } = world(HELD)
    openPages.keep(page('own'), null)
    for (let n = 1; n < PAGES_MAX; n++) expect(openPages.hold(`${n}`, null)).toBe(true)
    expect([openPages.isFull, openPages.hold('more', null), openPages.hold('1', null)]).toEqual([true, false, true])
    expect(openPages.open('read', null).mayKeep()).toBe(false)
    openPages.open('read too', null)
    expect(closed).toEqual(['read'])
  })
})

describe('closing a tab', () => {
  it('loses a page that was created here and has no other holder', () => {
    const alone = world(HELD, { watching: 2, holders: 1, partial: 1 })
    alone.openPages.keep(alone.page('a'), null)
    expect(wouldEnd(alone.openPages.list.value)).toBe(true)

    const among = world(HELD, { watching: 2, holders: 2, partial: 0 })
    among.openPages.keep(among.page('a'), null)
    expect(wouldEnd(among.openPages.list.value)).toBe(false)
  })

  it('loses the key of a live page, even if others have all of the page', () => {
    const feed = { title: '', timeMs: 0, entries: [], isComplete: true, isOurs: true, survivesReload: true, splitAt: null, invalidAt: null }
    const asks = (changed: Partial<LiveFeed>) => {
      const content = { kind: 'live', feed: { ...feed, ...changed }, files: [] } as const
      const { openPages, page } = world({ kind: 'held', content }, { watching: 2, holders: 2, partial: 0 })
      openPages.keep(page('a'), null)
      return wouldEnd(openPages.list.value)
    }
    expect(asks({})).toBe(true)
    expect(asks({ isOurs: false })).toBe(false)
    // Nobody can add to it any more.
    expect(asks({ splitAt: 3 })).toBe(false)
  })

  it('loses a page that was only read and that nobody else has', () => {
    const asks = (counts: Counts | null) => {
      const visitor = world(HELD, counts)
      visitor.openPages.open('a', null)
      return wouldEnd(visitor.openPages.list.value)
    }
    expect(asks({ watching: 1, holders: 1, partial: 0 })).toBe(true)
    expect(asks({ watching: 2, holders: 2, partial: 0 })).toBe(false)
    // Others may have it.
    expect(asks(null)).toBe(false)
  })
})
