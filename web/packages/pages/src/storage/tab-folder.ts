import type { TabKeys } from './tab-keys.ts'

/** The time from the end of a tab to the removal of its folder and keys. Long enough to reload or reopen the tab. */
export const GRACE_PERIOD_MS = 60_000
/** The same for a tab that did not announce its end, because it crashed or the browser ended it: the browser may restore it later. */
export const LOST_PERIOD_MS = 24 * 3_600_000
/** The longest wait of a reloaded tab for the lock that it held before. */
const TAKE_BACK_MS = 1000

const OWN_KEY = 'watchfire:tab'
/** The value is until when the folder of a tab stays that has ended. */
const LEFT_PREFIX = 'watchfire:left:'

/** The browser functions that a tab folder uses. Each may throw. */
export interface TabFolderDeps {
  /** Storage that lives as long as the tab, including reloads. */
  readonly session: Pick<Storage, 'getItem' | 'setItem'>
  /** Storage that all tabs of this origin share. */
  readonly local: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  readonly locks: Pick<LockManager, 'request' | 'query'>
  /** Contains a folder for each tab. */
  readonly top: FileSystemDirectoryHandle
  /** The keys of live pages. `null` in a program without them. */
  readonly keys: () => TabKeys | null
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly newId: () => string
}

/** Whether this tab had a folder before it was reloaded. */
export function hadFolder(session: Pick<Storage, 'getItem'>): boolean {
  return session.getItem(OWN_KEY) !== null
}

/** Whether a storage event says that a tab has ended. */
export function isTabLeftEvent({ key, newValue }: Pick<StorageEvent, 'key' | 'newValue'>): boolean {
  return key?.startsWith(LEFT_PREFIX) === true && newValue !== null
}

/**
 * The folder of one tab. While the tab lives, it holds a lock of the same name, so that other tabs know. When the tab
 * ends, the browser releases the lock. A reloaded tab takes its folder again, by the name that it remembers.
 */
export class TabFolder {
  readonly id: string
  readonly #deps: TabFolderDeps
  readonly #cameAt: number
  readonly #pages = new Set<string>()

  private constructor(id: string, deps: TabFolderDeps) {
    this.id = id
    this.#deps = deps
    this.#cameAt = deps.now()
  }

  static async enter(deps: TabFolderDeps): Promise<TabFolder> {
    const id = await takeId(deps)
    const tab = new TabFolder(id, deps)
    tab.comeBack()
    return tab
  }

  /** The folder that contains the folders of this tab's pages. */
  folder(): Promise<FileSystemDirectoryHandle> {
    return this.#deps.top.getDirectoryHandle(this.id, { create: true })
  }

  /** Returns the name of a page's folder. A page that is open twice gets two folders. */
  openPage(page: string): string {
    let name = page
    for (let n = 2; this.#pages.has(name); n++) name = `${page}.${n}`
    this.#pages.add(name)
    return name
  }

  closePage(name: string): void {
    this.#pages.delete(name)
  }

  /** The tab is ending or being reloaded. Both look the same. */
  leave(): void {
    if (this.#pages.size > 0) this.#deps.local.setItem(LEFT_PREFIX + this.id, `${this.#deps.now() + GRACE_PERIOD_MS}`)
  }

  /** The tab was only reloaded, or cached. */
  comeBack(): void {
    this.#deps.local.removeItem(LEFT_PREFIX + this.id)
  }

  /**
   * Removes folders of tabs that have ended, and folders of pages that this tab did not open again after a reload,
   * and the keys of these pages. Returns when to sweep again. `null` if nothing is left.
   */
  async sweep(): Promise<number | null> {
    const wakes = [(await this.#sweepOwn()) ?? Infinity]
    const { top, local, keys, now } = this.#deps
    const alive = await heldLocks(this.#deps)
    for (const id of await namesIn(top)) {
      if (id === this.id || alive.has(lockOf(id))) continue
      // Not later, also if the clock was ahead when the tab left.
      const until = Math.min(Number(local.getItem(LEFT_PREFIX + id) ?? Infinity), now() + LOST_PERIOD_MS)
      if (now() < until) {
        local.setItem(LEFT_PREFIX + id, `${until}`)
        wakes.push(until)
      } else await this.#removeTab(id)
    }
    await keys()
      ?.sweep(top)
      .catch(() => {})
    const first = Math.min(...wakes)
    return first < Infinity ? first : null
  }

  async #removeTab(id: string): Promise<void> {
    const { top, local, locks } = this.#deps
    // A tab that returns at this moment waits for the lock and then starts with a new folder.
    await locks.request(lockOf(id), { ifAvailable: true }, async (lock) => {
      if (lock === null) return
      await top.removeEntry(id, { recursive: true }).catch(() => {})
      local.removeItem(LEFT_PREFIX + id)
    })
  }

  async #sweepOwn(): Promise<number | null> {
    const folder = await this.folder()
    const unopened = (await namesIn(folder)).filter((name) => !this.#pages.has(name))
    const until = this.#cameAt + GRACE_PERIOD_MS
    if (unopened.length === 0) {
      if (this.#pages.size === 0) await this.#deps.top.removeEntry(this.id).catch(() => {})
      return null
    }
    if (this.#deps.now() < until) return until
    for (const name of unopened) {
      if (!this.#pages.has(name)) await folder.removeEntry(name, { recursive: true }).catch(() => {})
    }
    return null
  }
}

async function namesIn(folder: FileSystemDirectoryHandle): Promise<string[]> {
  const names: string[] = []
  for await (const name of folder.keys()) names.push(name)
  return names
}

function lockOf(id: string): string {
  return `watchfire:tab:${id}`
}

async function heldLocks({ locks }: TabFolderDeps): Promise<Set<string>> {
  const { held = [] } = await locks.query()
  return new Set(held.map(({ name }) => name ?? ''))
}

/**
 * The id this tab had before a reload, if it is free. A duplicated tab remembers the other tab's id, and gets a new
 * one.
 */
async function takeId(deps: TabFolderDeps): Promise<string> {
  const before = deps.session.getItem(OWN_KEY)
  if (before !== null && /^[0-9a-f-]+$/.test(before) && (await hold(deps, before))) return before
  const id = deps.newId()
  if (!(await hold(deps, id))) throw new Error('a new lock is free')
  deps.session.setItem(OWN_KEY, id)
  return id
}

/** Takes a tab's lock for as long as this tab lives. */
function hold({ locks }: TabFolderDeps, id: string): Promise<boolean> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(TAKE_BACK_MS)
    const taken = () => {
      resolve(true)
      return new Promise<never>(() => {})
    }
    locks.request(lockOf(id), { signal }, taken).catch(() => resolve(false))
  })
}
