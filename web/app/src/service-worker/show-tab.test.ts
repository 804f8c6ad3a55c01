import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Client } from './scope.ts'
import { answerShows, showTab } from './show-tab.ts'

const HOME = 'https://fire.example/'
const PAGE = 'https://fire.example/p/a'
const ADDRESS = `${PAGE}#key=x`

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

/** A tab that was loaded with one address and shows another one now; `null`: it does not answer. */
interface Tab {
  readonly loaded: string
  readonly shows: string | null
}

/** Clicks on the notification; returns what was brought to the front or opened. */
async function click(...tabs: Tab[]): Promise<string[]> {
  const done: string[] = []
  const clients: Client[] = tabs.map(({ loaded, shows }, i) => ({
    id: `${i}`,
    url: loaded,
    postMessage(data, ports) {
      if (shows === null) return
      vi.stubGlobal('location', { href: shows })
      answerShows({ data, ports } as unknown as MessageEvent<unknown>)
    },
    focus: () => Promise.resolve(done.push(`tab ${i}`)),
  }))
  const shown = showTab(
    {
      get: () => Promise.resolve(undefined),
      matchAll: () => Promise.resolve(clients),
      openWindow: (url) => Promise.resolve(void done.push(`opened ${url}`)).then(() => null),
      claim: () => Promise.resolve(),
    },
    ADDRESS,
  )
  if (tabs.some(({ shows }) => shows === null)) await vi.advanceTimersByTimeAsync(500)
  await shown
  return done
}

describe('a click on a notification', () => {
  it('shows the tab that has gone on to the page, and not one that has left it', async () => {
    expect(await click({ loaded: ADDRESS, shows: HOME }, { loaded: HOME, shows: ADDRESS })).toEqual(['tab 1'])
  })

  it('shows a tab with another fragment', async () => {
    expect(await click({ loaded: PAGE, shows: `${PAGE}#filename=a.md` })).toEqual(['tab 0'])
  })

  it('opens the address, with its key, where no tab shows it', async () => {
    expect(await click()).toEqual([`opened ${ADDRESS}`])
    expect(await click({ loaded: ADDRESS, shows: HOME })).toEqual([`opened ${ADDRESS}`])
    expect(await click({ loaded: HOME, shows: null })).toEqual([`opened ${ADDRESS}`])
  })

  it('shows a tab that was loaded with the address and does not answer', async () => {
    expect(await click({ loaded: HOME, shows: HOME }, { loaded: ADDRESS, shows: null })).toEqual(['tab 1'])
  })

  it('is the only message that a tab answers', () => {
    const answers: unknown[] = []
    const port = { postMessage: (answer: unknown) => void answers.push(answer) }
    for (const data of [null, 'shows', { notice: 'shows' }, { notice: 'other', address: PAGE }])
      answerShows({ data, ports: [port] } as unknown as MessageEvent<unknown>)
    expect(answers).toEqual([])
  })
})
