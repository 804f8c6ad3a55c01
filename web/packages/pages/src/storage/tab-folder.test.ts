import { beforeEach, describe, expect, it } from 'vitest'
import { FakeFolder, FakeKeys, FakeLocks } from '../../test/fake-disk.ts'
import { GRACE_PERIOD_MS, hadFolder, LOST_PERIOD_MS, TabFolder, isTabLeftEvent, type TabFolderDeps } from './tab-folder.ts'

class FakeStorage {
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

  copy(): FakeStorage {
    const copy = new FakeStorage()
    for (const [key, value] of this.#items) copy.setItem(key, value)
    return copy
  }
}

let top: FakeFolder
let local: FakeStorage
let locks: FakeLocks
let keys: FakeKeys
let now: number
beforeEach(() => {
  top = new FakeFolder()
  local = new FakeStorage()
  locks = FakeLocks.ofBrowser()
  keys = new FakeKeys()
  now = 1_000_000
})

let ids = 0
interface Window {
  tab: TabFolder
  session: FakeStorage
  end(): void
}

async function open(session = new FakeStorage()): Promise<Window> {
  const mine = locks.inAnotherTab()
  const deps: TabFolderDeps = {
    session,
    local,
    locks: mine.manager,
    top: top.handle,
    keys: () => keys,
    now: () => now,
    newId: () => `${++ids}`,
  }
  return { tab: await TabFolder.enter(deps), session, end: () => mine.end() }
}

async function keep({ tab }: Window, page: string): Promise<void> {
  const folder = (await tab.folder()) as unknown as FakeFolder
  const pages = await folder.getDirectoryHandle(tab.openPage(page), { create: true })
  pages.below.set('0', new Blob(['x']))
}

/** Stores the key of a page; its content is nothing that matters here. */
const keepKey = ({ tab }: Window, page: string) => keys.of([tab.id, page]).put({} as CryptoKey)

function close(window: Window): void {
  window.tab.leave()
  window.end()
}

describe('a tab', () => {
  it('takes its folder again after a reload', async () => {
    const before = await open()
    expect(hadFolder(new FakeStorage())).toBe(false)
    await keep(before, 'page')
    close(before)
    expect(hadFolder(before.session)).toBe(true)
    const after = await open(before.session)
    expect(after.tab.id).toBe(before.tab.id)
    expect(after.tab.openPage('page')).toBe('page')
    await after.tab.sweep()
    expect(top.files()).toEqual([`${after.tab.id}/page/0`])
  })

  it('gets its own folder if it was duplicated', async () => {
    const first = await open()
    const copy = await open(first.session.copy())
    expect(copy.tab.id).not.toBe(first.tab.id)
  })

  it('has one folder for each open page, also if a page is open twice', async () => {
    const { tab } = await open()
    expect([tab.openPage('page'), tab.openPage('page'), tab.openPage('other')]).toEqual(['page', 'page.2', 'other'])
    tab.closePage('page')
    expect(tab.openPage('page')).toBe('page')
  })

  it('removes the folders of pages that it did not open again after a reload', async () => {
    const before = await open()
    await keep(before, 'old')
    close(before)
    const after = await open(before.session)
    await keep(after, 'new')
    expect(await after.tab.sweep()).toBe(now + GRACE_PERIOD_MS)
    expect(top.files()).toHaveLength(2)
    now += GRACE_PERIOD_MS
    expect(await after.tab.sweep()).toBeNull()
    expect(top.files()).toEqual([`${after.tab.id}/new/0`])
  })
})

describe('the key of a live page', () => {
  it('is there after a reload, and is removed with the page if that is not opened again', async () => {
    const before = await open()
    for (const page of ['old', 'new']) {
      await keep(before, page)
      await keepKey(before, page)
    }
    close(before)
    const after = await open(before.session)
    expect(keys.list()).toEqual([`${after.tab.id}/old`, `${after.tab.id}/new`])
    after.tab.openPage('new')
    now += GRACE_PERIOD_MS
    await after.tab.sweep()
    expect([keys.list(), top.files()]).toEqual([[`${after.tab.id}/new`], [`${after.tab.id}/new/0`]])
  })

  it('is removed with the folder of a closed tab, and without a folder at once', async () => {
    const [one, other, living] = [await open(), await open(), await open()]
    for (const window of [one, living]) await keep(window, 'page')
    for (const window of [one, other, living]) await keepKey(window, 'page')
    close(one)
    close(other)
    await living.tab.sweep()
    expect(keys.list()).toEqual([`${one.tab.id}/page`, `${living.tab.id}/page`])
    now += GRACE_PERIOD_MS
    await living.tab.sweep()
    expect([keys.list(), top.files()]).toEqual([[`${living.tab.id}/page`], [`${living.tab.id}/page/0`]])
  })
})

describe('the folder of a closed tab', () => {
  it('is removed by another tab after the grace period, and not before', async () => {
    const gone = await open()
    await keep(gone, 'page')
    close(gone)
    const other = await open()
    now += GRACE_PERIOD_MS - 1
    expect(await other.tab.sweep()).toBe(now + 1)
    expect(top.files()).toHaveLength(1)
    now += 1
    expect(await other.tab.sweep()).toBeNull()
    expect([top.files(), top.below.has(gone.tab.id)]).toEqual([[], false])
  })

  it('is not touched while the tab lives', async () => {
    const living = await open()
    await keep(living, 'page')
    now += 100 * GRACE_PERIOD_MS
    expect(await (await open()).tab.sweep()).toBeNull()
    expect(top.files()).toHaveLength(1)
  })

  it('stays for a day from when it is found, if the tab crashed, and the restored tab has it', async () => {
    const crashed = await open()
    await keep(crashed, 'page')
    crashed.end()
    const other = await open()
    expect(await other.tab.sweep()).toBe(now + LOST_PERIOD_MS)
    now += LOST_PERIOD_MS - 1
    await other.tab.sweep()
    const restored = await open(crashed.session)
    expect([restored.tab.id, top.files()]).toEqual([crashed.tab.id, [`${crashed.tab.id}/page/0`]])
    restored.end()
    await other.tab.sweep()
    now += LOST_PERIOD_MS
    await other.tab.sweep()
    expect(top.files()).toEqual([])
  })

  it('stays for a day at most if the clock was ahead when the tab left', async () => {
    const gone = await open()
    await keep(gone, 'page')
    close(gone)
    local.setItem(`watchfire:left:${gone.tab.id}`, `${now + 1e9}`)
    expect(await (await open()).tab.sweep()).toBe(now + LOST_PERIOD_MS)
  })
})

it('a storage event reports that a tab ended, and none that it came back', () => {
  expect(isTabLeftEvent({ key: 'watchfire:left:1', newValue: '5' })).toBe(true)
  expect(isTabLeftEvent({ key: 'watchfire:left:1', newValue: null })).toBe(false)
  expect(isTabLeftEvent({ key: 'theme', newValue: 'dark' })).toBe(false)
  expect(isTabLeftEvent({ key: null, newValue: null })).toBe(false)
})
