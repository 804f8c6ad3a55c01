/** Between the end of a tab and the end of what it left on disk: long enough to reload it, or to reopen it. */
export const GRACE_MS = 60_000
/** How long a tab that is back waits for the one it was before to be gone. */
const TAKE_BACK_MS = 1000

const OWN_KEY = 'watchfire:tab'
const LEFT_PREFIX = 'watchfire:left:'

/** What a tab needs of its browser; each of it may throw. */
export interface TabDeps {
  /** Lives as long as the tab, over reloads. */
  readonly session: Pick<Storage, 'getItem' | 'setItem'>
  /** Shared by all tabs of this origin. */
  readonly local: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  readonly locks: Pick<LockManager, 'request' | 'query'>
  /** Holds a folder for each tab. */
  readonly top: FileSystemDirectoryHandle
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly newId: () => string
}

/** Whether this tab had anything on disk before it was reloaded. */
export function hadFolder(session: Pick<Storage, 'getItem'>): boolean {
  return session.getItem(OWN_KEY) !== null
}

/** Whether a change in what the tabs share says that one has left. */
export function tellsOfLeaving({ key, newValue }: Pick<StorageEvent, 'key' | 'newValue'>): boolean {
  return key?.startsWith(LEFT_PREFIX) === true && newValue !== null
}

/**
 * One tab's folder. While the tab lives it holds a lock of the same name, so that others know; when it ends, the lock is
 * let go by the browser. A reloaded tab takes its folder back by the name it remembers.
 */
export class Tab {
  readonly id: string
  readonly #deps: TabDeps
  readonly #cameAt: number
  readonly #pages = new Set<string>()

  private constructor(id: string, deps: TabDeps) {
    this.id = id
    this.#deps = deps
    this.#cameAt = deps.now()
  }

  static async enter(deps: TabDeps): Promise<Tab> {
    const id = await takeId(deps)
    const tab = new Tab(id, deps)
    tab.comeBack()
    return tab
  }

  /** Where this tab's pages have their folders. */
  folder(): Promise<FileSystemDirectoryHandle> {
    return this.#deps.top.getDirectoryHandle(this.id, { create: true })
  }

  /** A name for the folder of a page; a page that is open twice gets two. */
  openPage(page: string): string {
    let name = page
    for (let n = 2; this.#pages.has(name); n++) name = `${page}.${n}`
    this.#pages.add(name)
    return name
  }

  closePage(name: string): void {
    this.#pages.delete(name)
  }

  /** The tab ends, or is only reloaded: nobody can tell. */
  leave(): void {
    if (this.#pages.size > 0) this.#deps.local.setItem(LEFT_PREFIX + this.id, `${this.#deps.now()}`)
  }

  /** It was only reloaded, or put aside. */
  comeBack(): void {
    this.#deps.local.removeItem(LEFT_PREFIX + this.id)
  }

  /**
   * Removes what tabs left that have ended, and pages of this tab's past that it did not open again; returns when to look
   * again, `null` when there is nothing to look for.
   */
  async sweep(): Promise<number | null> {
    const wakes = [await this.#sweepOwn()]
    const { top, local, now } = this.#deps
    const alive = await heldLocks(this.#deps)
    for (const id of await namesIn(top)) {
      if (id === this.id || alive.has(lockOf(id))) continue
      // One that ended without a word, as in a crash, has left now.
      const told = Number(local.getItem(LEFT_PREFIX + id) ?? '')
      const leftAt = told > 0 && told <= now() ? told : now()
      if (now() - leftAt < GRACE_MS) {
        local.setItem(LEFT_PREFIX + id, `${leftAt}`)
        wakes.push(leftAt + GRACE_MS)
      } else await this.#removeTab(id)
    }
    const known = wakes.filter((wake) => wake !== null)
    return known.length > 0 ? Math.min(...known) : null
  }

  async #removeTab(id: string): Promise<void> {
    const { top, local, locks } = this.#deps
    // Whoever comes back at this moment waits for the lock, and then begins anew.
    await locks.request(lockOf(id), { ifAvailable: true }, async (lock) => {
      if (lock === null) return
      await top.removeEntry(id, { recursive: true }).catch(() => {})
      local.removeItem(LEFT_PREFIX + id)
    })
  }

  async #sweepOwn(): Promise<number | null> {
    const folder = await this.folder()
    const unopened = (await namesIn(folder)).filter((name) => !this.#pages.has(name))
    const until = this.#cameAt + GRACE_MS
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

async function heldLocks({ locks }: TabDeps): Promise<Set<string>> {
  const { held = [] } = await locks.query()
  return new Set(held.map(({ name }) => name ?? ''))
}

/** The id this tab had before, if it is free; a tab made by duplicating another remembers that one's, and gets its own. */
async function takeId(deps: TabDeps): Promise<string> {
  const before = deps.session.getItem(OWN_KEY)
  if (before !== null && /^[0-9a-f-]+$/.test(before) && (await hold(deps, before))) return before
  const id = deps.newId()
  if (!(await hold(deps, id))) throw new Error('a new lock is free')
  deps.session.setItem(OWN_KEY, id)
  return id
}

/** Takes a tab's lock for as long as this tab lives. */
function hold({ locks }: TabDeps, id: string): Promise<boolean> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(TAKE_BACK_MS)
    const taken = () => {
      resolve(true)
      return new Promise<never>(() => {})
    }
    locks.request(lockOf(id), { signal }, taken).catch(() => resolve(false))
  })
}
