import type { Connection } from '@watchfire/client/connection'
import { cidOfLink, type Cid, type CidKey } from '../content/index.ts'
import { swarm } from '../messages/swarm.ts'
import type { PageDeps, PageSession, PageState } from './api.ts'
import { PageClient } from './page-client.ts'

const opened = new WeakMap<Connection, Map<CidKey, SharedPage>>()

/**
 * Joins the page's topic, loads the missing blocks, and serves blocks until closed. Throws an error with a sentence for
 * people if `cid` is not valid. A page that is open on the connection already is shared: it ends when each caller has closed it.
 */
export function openPage(cid: string, deps: PageDeps): PageSession {
  const root = cidOfLink(cid)
  const pages = opened.get(deps.connection) ?? new Map<CidKey, SharedPage>()
  opened.set(deps.connection, pages)
  const page = pages.get(root.key) ?? new SharedPage(root, deps, () => pages.delete(root.key))
  pages.set(root.key, page)
  return page.view(deps)
}

/**
 * A page that is open on a connection, once or several times. A connection has one membership in the topic of a page, so all callers
 * share one client.
 */
class SharedPage {
  readonly #cid: Cid
  readonly #onEnd: () => void
  /** The listeners of each caller. */
  readonly #views = new Set<Set<(state: PageState) => void>>()
  #deps: PageDeps
  #client: PageClient

  /** `onEnd`: all callers have closed the page. */
  constructor(cid: Cid, deps: PageDeps, onEnd: () => void) {
    this.#cid = cid
    this.#onEnd = onEnd
    this.#deps = deps
    this.#client = this.#start()
  }

  /** The page for one caller. */
  view({ signal, ...deps }: PageDeps): PageSession {
    if (this.#views.size > 0 && this.#lacks(deps)) {
      this.#deps = { ...this.#deps, ...deps }
      this.#client.close()
      this.#client = this.#start()
      this.#report(this.#client.state)
    }
    const listeners = new Set<(state: PageState) => void>()
    this.#views.add(listeners)
    const session = () => this.#client
    const isOpen = () => this.#views.has(listeners)
    const whileOpen = async <T>(work: (session: PageClient) => Promise<T>): Promise<T> => {
      for (;;) {
        if (!isOpen()) throw new DOMException(swarm('closed'), 'AbortError')
        const used = session()
        try {
          const result = await work(used)
          if (isOpen()) return result
        } catch (error) {
          // Otherwise the session was closed for another one, which can do more.
          if (isOpen() && used === session()) throw error
        }
      }
    }
    const close = () => {
      listeners.clear()
      if (!this.#views.delete(listeners) || this.#views.size > 0) return
      this.#onEnd()
      session().close()
    }
    signal?.addEventListener('abort', close)
    if (signal?.aborted) close()
    return {
      root: this.#cid.text,
      get state() {
        return session().state
      },
      subscribe: (listener) => {
        const listen = (state: PageState) => listener(state)
        listeners.add(listen)
        listen(session().state)
        return () => listeners.delete(listen)
      },
      listing: () => session().listing(),
      file: (path, options) => whileOpen((page) => page.file(path, options)),
      blockMap: () => session().blockMap(),
      open: (path, options) => whileOpen((page) => page.open(path, options)),
      live: () => session().live(),
      append: (entry, options) => whileOpen((page) => page.append(entry, options)),
      close,
    }
  }

  /** Whether the session lacks what these dependencies have: the blocks of the page, room for it, or the code of live pages. */
  #lacks({ publication, limits, live }: PageDeps): boolean {
    return (
      (publication && this.#client.state.have !== 'all') ||
      limits.pageBytesMax > this.#deps.limits.pageBytesMax ||
      (live !== undefined && !this.#deps.live)
    )
  }

  #start(): PageClient {
    return new PageClient(this.#cid, this.#deps, (state) => this.#report(state))
  }

  #report(state: PageState): void {
    // An async function, so that one which throws is reported, and the others are called.
    for (const listeners of this.#views) listeners.forEach(async (listener) => listener(state))
  }
}
