import type { Cid } from '../content/index.ts'
import { swarm } from '../messages/swarm.ts'
import type { PageDeps, PageSession, PageState } from './api.ts'
import { Session } from './session.ts'

/**
 * A page that is open on a connection, once or several times. A connection has one membership in the topic of a page, so all callers
 * share one session.
 */
export class SharedPage {
  readonly #cid: Cid
  readonly #onEnd: () => void
  /** The listeners of each caller. */
  readonly #views = new Set<Set<(state: PageState) => void>>()
  #deps: PageDeps
  #session: Session

  /** `onEnd`: all callers have closed the page. */
  constructor(cid: Cid, deps: PageDeps, onEnd: () => void) {
    this.#cid = cid
    this.#onEnd = onEnd
    this.#deps = deps
    this.#session = this.#start()
  }

  /** The page for one caller. */
  view({ signal, ...deps }: PageDeps): PageSession {
    if (this.#views.size > 0 && this.#lacks(deps)) {
      this.#deps = { ...this.#deps, ...deps }
      this.#session.close()
      this.#session = this.#start()
      this.#report(this.#session.state)
    }
    const listeners = new Set<(state: PageState) => void>()
    this.#views.add(listeners)
    const session = () => this.#session
    const isOpen = () => this.#views.has(listeners)
    const whileOpen = async <T>(work: (session: Session) => Promise<T>): Promise<T> => {
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
      (publication && this.#session.state.have !== 'all') ||
      limits.pageBytesMax > this.#deps.limits.pageBytesMax ||
      (live !== undefined && !this.#deps.live)
    )
  }

  #start(): Session {
    return new Session(this.#cid, this.#deps, (state) => this.#report(state))
  }

  #report(state: PageState): void {
    // An async function, so that one which throws is reported, and the others are called.
    for (const listeners of this.#views) listeners.forEach(async (listener) => listener(state))
  }
}
