import { signal } from '@preact/signals'
import { describe, expect, it } from 'vitest'
import { Hearth, wouldEnd } from './hearth.ts'
import type { Counts } from './sentences.ts'
import type { PageSession, PageState, Site } from './site.ts'

const HELD: PageState = { kind: 'held', content: { kind: 'directory', files: [] } }
const LOADING: PageState = { kind: 'loading', bytes: 1, total: 2, peers: 1, direct: 0, nodes: 0 }

function world(state: PageState, counts: Counts | null = null) {
  const closed: string[] = []
  const unlocked: string[] = []
  const page = (cid: string): PageSession => ({
    cid, state: signal(state), counts: signal(counts), trouble: signal(null), lastLit: signal(null), swarm: signal(null),
    traffic: signal({ receivedBytes: 0, sentBytes: 0 }), key: signal(null), name: signal(null),
    unlock: (key) => unlocked.push(key), close: () => closed.push(cid),
  })
  const opened: string[] = []
  const site = { open: (cid: string) => (opened.push(cid), page(cid)) } as unknown as Site
  return { hearth: new Hearth(site), page, opened, closed, unlocked }
}

describe('a page in a tab', () => {
  it('is opened once however often it is looked at', () => {
    const { hearth, opened } = world(HELD)
    expect(hearth.open('a', 'x.md')).toBe(hearth.open('a', null))
    expect(opened).toEqual(['a'])
  })

  it('is opened anew by a link with a key, without being fetched anew', () => {
    const { hearth, opened, unlocked } = world({ kind: 'locked', reason: null, coming: null })
    hearth.open('a', null)
    hearth.open('a', null, 'the key')
    expect(opened).toEqual(['a'])
    expect(unlocked).toEqual(['the key'])
  })

  it('goes on burning although nobody here can read it', () => {
    const { hearth, closed } = world({ kind: 'locked', reason: null, coming: null })
    hearth.open('a', null)
    hearth.lookAway('a')
    expect(closed).toEqual([])
  })

  it('goes on burning when its reader looks away', () => {
    const { hearth, closed } = world(HELD)
    hearth.open('a', null)
    hearth.lookAway('a')
    expect(closed).toEqual([])
    expect(hearth.kept.value).toHaveLength(1)
  })

  it('that is not held yet is closed when its reader looks away', () => {
    const { hearth, closed } = world(LOADING)
    hearth.open('a', null)
    hearth.lookAway('a')
    expect(closed).toEqual(['a'])
    expect(hearth.kept.value).toEqual([])
  })

  it('lit a second time takes the place of the first', () => {
    const { hearth, page, closed } = world(HELD)
    hearth.open('a', null)
    hearth.keep(page('a'), 'x.md')
    expect(closed).toEqual(['a'])
    expect(hearth.kept.value).toMatchObject([{ filename: 'x.md', ours: true }])
  })
})

describe('closing a tab', () => {
  it('ends a page that was made here and is held nowhere else', () => {
    const alone = world(HELD, { watching: 2, holders: 1, partial: 1 })
    alone.hearth.keep(alone.page('a'), null)
    expect(wouldEnd(alone.hearth.kept.value)).toBe(true)

    const among = world(HELD, { watching: 2, holders: 2, partial: 0 })
    among.hearth.keep(among.page('a'), null)
    expect(wouldEnd(among.hearth.kept.value)).toBe(false)
  })

  it('is a visitor’s own business', () => {
    const visitor = world(HELD, { watching: 1, holders: 1, partial: 0 })
    visitor.hearth.open('a', null)
    expect(wouldEnd(visitor.hearth.kept.value)).toBe(false)
  })
})
