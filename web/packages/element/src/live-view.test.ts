// @vitest-environment happy-dom
import type { LiveEntry, LiveFeed } from '@watchfire/pages'
import { expect, it, vi } from 'vitest'
import { LiveView, type ReadableLive } from './live-view.ts'

const FEED: LiveFeed = {
  title: 'Log',
  timeMs: 0,
  entries: [],
  isComplete: true,
  isOurs: false,
  survivesReload: false,
  splitAt: null,
  invalidAt: null,
}

const textEntry = (number: number): LiveEntry => ({ number, timeMs: 0, form: 'text', name: '', path: `${number}/text.txt` })

/** A page whose files say their own path, and the view of it. */
function shown(entries: readonly LiveEntry[], paths = entries.map(({ path }) => path)) {
  const state = { phase: 'complete' }
  const page = { feed: { ...FEED, entries }, paths, state }
  const readable: ReadableLive = {
    live: () => page.feed,
    listing: () => ({ files: page.paths.map((path) => ({ path, size: 1, complete: true })), links: 0, hasNames: true, isFinal: true }),
    file: (path) => Promise.resolve(new Blob([path])),
    state,
  }
  const view = new LiveView(readable, 'https://example.org/p/cid')
  const grow = (more: readonly LiveEntry[], morePaths = more.map(({ path }) => path)) => {
    page.feed = { ...page.feed, entries: [...page.feed.entries, ...more].sort((a, b) => a.number - b.number) }
    page.paths = [...page.paths, ...morePaths]
    view.update()
  }
  return { page, view, grow, texts: () => [...view.node.querySelectorAll('li pre')].map(({ textContent }) => textContent) }
}

it('shows each entry once, the newest first, in whichever order they come', async () => {
  const { grow, texts, view } = shown([textEntry(2)])
  grow([textEntry(4)])
  grow([textEntry(1), textEntry(3)])
  await vi.waitUntil(() => texts().length === 4)
  expect(texts()).toEqual(['4/text.txt', '3/text.txt', '2/text.txt', '1/text.txt'])
  expect(view.node.querySelector('h2')?.textContent).toBe('Log')
})

it('shows a folder when all of it is here, and lists its files', async () => {
  const { page, view, grow } = shown([])
  page.state.phase = 'loading'
  const folder: LiveEntry = { number: 1, timeMs: NaN, form: 'file', name: 'trip', path: '1/trip' }
  grow([folder], ['1/trip/a.txt', '1/trip/b/c.txt'])
  expect(view.node.querySelectorAll('button')).toHaveLength(0)
  page.state.phase = 'complete'
  view.update()
  await vi.waitUntil(() => view.node.querySelectorAll('button').length === 2)
  expect(view.node.querySelector('button')?.textContent).toContain('"a.txt"')
})

it('shows the newest 50 entries, and a link to all', async () => {
  const { grow, texts, view } = shown(Array.from({ length: 50 }, (_, i) => textEntry(i + 1)))
  const more = view.node.lastElementChild as HTMLElement
  expect(more.hidden).toBe(true)
  grow([textEntry(51)])
  await vi.waitUntil(() => texts().length === 50)
  expect([texts()[0], texts().at(-1), more.hidden]).toEqual(['51/text.txt', '2/text.txt', false])
  expect(more.textContent).toContain('example.org')
})

it('says that the page has forked, and shows nothing of a view that is gone', async () => {
  const { page, view, texts } = shown([textEntry(1)])
  page.feed = { ...page.feed, splitAt: 1 }
  view.update()
  expect(view.node.querySelector('[role=alert]')?.textContent).toContain('forked at entry 1')
  view.dispose()
  const later = shown([textEntry(1)])
  await vi.waitUntil(() => later.texts().length === 1)
  expect(texts()).toEqual([])
})
