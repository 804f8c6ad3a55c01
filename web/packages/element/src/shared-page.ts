import type { PageSession } from '@watchfire/pages'

/** A page that several elements show. A connection has one membership in the topic of a page, so they share it. */
export class SharedPage {
  readonly #session: PageSession
  readonly #onEnd: () => void
  #views = 0

  /** `onEnd`: the last view is closed, and the page with it. */
  constructor(session: PageSession, onEnd: () => void) {
    this.#session = session
    this.#onEnd = onEnd
  }

  /** The page, for one element. */
  view(): PageSession {
    const session = this.#session
    let isOpen = true
    this.#views += 1
    return {
      root: session.root,
      get state() {
        return session.state
      },
      subscribe: (listener) => session.subscribe(listener),
      listing: () => session.listing(),
      file: (path, options) => session.file(path, options),
      blockMap: () => session.blockMap(),
      open: (path, options) => session.open(path, options),
      live: () => session.live(),
      append: (entry, options) => session.append(entry, options),
      close: () => {
        if (isOpen) this.#closeView()
        isOpen = false
      },
    }
  }

  #closeView(): void {
    this.#views -= 1
    if (this.#views > 0) return
    this.#onEnd()
    this.#session.close()
  }
}
