import { beforeEach, describe, expect, it } from 'vitest'
import { PretendFolder, PretendLocks } from './pretend-disk.ts'
import { GRACE_MS, hadFolder, Tab, tellsOfLeaving, type TabDeps } from './tab.ts'

class PretendStorage {
  readonly #items = new Map<string, string>()

  getItem(key: string): string | null {
    return this.#items.get(key) ?? null
  }

  setItem(key: string, value: string): void {
    this.#items.set(key, value)
  }

  removeItem(key: string): void {
    this.#items.delete(key)
  }

  copy(): PretendStorage {
    const copy = new PretendStorage()
    for (const [key, value] of this.#items) copy.setItem(key, value)
    return copy
  }
}

let top: PretendFolder
let local: PretendStorage
let locks: PretendLocks
let now: number
beforeEach(() => {
  top = new PretendFolder()
  local = new PretendStorage()
  locks = PretendLocks.ofBrowser()
  now = 1_000_000
})

let ids = 0
interface Window {
  tab: Tab
  session: PretendStorage
  end(): void
}

async function open(session = new PretendStorage()): Promise<Window> {
  const mine = locks.inAnotherTab()
  const deps: TabDeps = {
    session, local, locks: mine.manager, top: top.handle, now: () => now, newId: () => `${++ids}`,
  }
  return { tab: await Tab.enter(deps), session, end: () => mine.end() }
}

async function keep({ tab }: Window, page: string): Promise<void> {
  const folder = (await tab.folder()) as unknown as PretendFolder
  const pages = await folder.getDirectoryHandle(tab.openPage(page), { create: true })
  pages.below.set('0', new Blob(['x']))
}

function close(window: Window): void {
  window.tab.leave()
  window.end()
}

describe('a tab', () => {
  it('that is reloaded takes its folder back', async () => {
    const before = await open()
    expect(hadFolder(new PretendStorage())).toBe(false)
    await keep(before, 'page')
    close(before)
    expect(hadFolder(before.session)).toBe(true)
    const after = await open(before.session)
    expect(after.tab.id).toBe(before.tab.id)
    expect(after.tab.openPage('page')).toBe('page')
    await after.tab.sweep()
    expect(top.files()).toEqual([`${after.tab.id}/page/0`])
  })

  it('that is a copy of another gets a folder of its own', async () => {
    const first = await open()
    const copy = await open(first.session.copy())
    expect(copy.tab.id).not.toBe(first.tab.id)
  })

  it('has a folder for each time that a page is open in it', async () => {
    const { tab } = await open()
    expect([tab.openPage('page'), tab.openPage('page'), tab.openPage('other')]).toEqual(['page', 'page.2', 'other'])
    tab.closePage('page')
    expect(tab.openPage('page')).toBe('page')
  })

  it('that did not open a page again after a reload gives it up in time', async () => {
    const before = await open()
    await keep(before, 'old')
    close(before)
    const after = await open(before.session)
    await keep(after, 'new')
    expect(await after.tab.sweep()).toBe(now + GRACE_MS)
    expect(top.files()).toHaveLength(2)
    now += GRACE_MS
    expect(await after.tab.sweep()).toBeNull()
    expect(top.files()).toEqual([`${after.tab.id}/new/0`])
  })
})

describe('what a tab left on disk', () => {
  it('is removed by another when its grace is over, and not before', async () => {
    const gone = await open()
    await keep(gone, 'page')
    close(gone)
    const other = await open()
    now += GRACE_MS - 1
    expect(await other.tab.sweep()).toBe(now + 1)
    expect(top.files()).toHaveLength(1)
    now += 1
    expect(await other.tab.sweep()).toBeNull()
    expect([top.files(), top.below.has(gone.tab.id)]).toEqual([[], false])
  })

  it('is not touched while it lives, however long', async () => {
    const living = await open()
    await keep(living, 'page')
    now += 100 * GRACE_MS
    expect(await (await open()).tab.sweep()).toBeNull()
    expect(top.files()).toHaveLength(1)
  })

  it('without a word, as in a crash, has its grace from when it is found', async () => {
    const crashed = await open()
    await keep(crashed, 'page')
    crashed.end()
    const other = await open()
    expect(await other.tab.sweep()).toBe(now + GRACE_MS)
    now += GRACE_MS
    await other.tab.sweep()
    expect(top.files()).toEqual([])
  })

  it('with a time of leaving that makes no sense has its grace from now', async () => {
    const gone = await open()
    await keep(gone, 'page')
    close(gone)
    for (const told of ['soon', '-5', `${now + 1e9}`]) {
      local.setItem(`watchfire:left:${gone.tab.id}`, told)
      expect(await (await open()).tab.sweep()).toBe(now + GRACE_MS)
    }
  })
})

it('another tab hears that one leaves, and not that it came back', () => {
  expect(tellsOfLeaving({ key: 'watchfire:left:1', newValue: '5' })).toBe(true)
  expect(tellsOfLeaving({ key: 'watchfire:left:1', newValue: null })).toBe(false)
  expect(tellsOfLeaving({ key: 'theme', newValue: 'dark' })).toBe(false)
  expect(tellsOfLeaving({ key: null, newValue: null })).toBe(false)
})
