import type { LinkedPage, PageState } from '@watchfire/pages'
import { cidOfLink, type Cid } from '@watchfire/pages/content'
import type { PageServer } from '@watchfire/pages/server'
import type { LiveView } from './live-view.ts'
import type { Rendered } from './render.ts'
import { useServer } from './server.ts'
import { text } from './messages/element.ts'

/**
 * - `waiting`: not all of the page is here, or the element is not in a document. The content of the element is shown. `problem`
 *   says if the server is the reason.
 * - `shown`: the page is shown, and served to others. A live page is shown from its first block on, and grows.
 * - `locked`: the page is private, and the attribute `key` is missing or does not open it.
 * - `failed`: the page can never be shown; `problem` says why.
 */
export type WatchFireStatus = 'waiting' | 'shown' | 'locked' | 'failed'

const STYLE = `:host { display: block } :host([hidden]) { display: none }
[part=page] { max-width: 100% } img, video { max-width: 100%; height: auto } pre { white-space: pre-wrap; overflow-wrap: anywhere }
iframe { width: 100%; height: 100%; min-height: 20em; border: 0 } li + li { margin-block-start: 1em }
time { display: block; font-size: small; opacity: .75 } h2 { overflow-wrap: anywhere }`

/** A server has no elements. There, the module can be imported, and does nothing. */
const Base = (globalThis.HTMLElement ?? class {}) as typeof HTMLElement

/** React and Vue keep the name `key` for themselves. */
const KEYS = ['key', 'page-key'] as const

/**
 * `<watch-fire cid="..." server="https://..." key="...">` shows a page, or what is inside it until all of the page is here.
 * While it is shown, this tab serves the page to others. The event `statuschange` follows each change of `status`.
 */
export class WatchFire extends Base {
  static readonly observedAttributes: readonly string[] = ['cid', 'server', ...KEYS]
  #status: WatchFireStatus = 'waiting'
  #problem: string | null = null
  #state: PageState | null = null
  /** Ends the page that is open. */
  #end: (() => void) | null = null
  /** The attributes for which it was opened. */
  #opened = ''

  constructor() {
    super()
    const root = this.attachShadow({ mode: 'open' })
    root.append(document.createElement('slot'))
    this.#style()
  }

  get status(): WatchFireStatus {
    return this.#status
  }

  /** Why the page is not shown, as a sentence for people. `null` while there is no problem. */
  get problem(): string | null {
    return this.#problem
  }

  /** The transfer of the page: counts, progress and peers. `null` until the page is open. */
  get state(): PageState | null {
    return this.#state
  }

  /** In another document, an element loses its style sheets. */
  adoptedCallback(): void {
    this.#style()
  }

  /** No Content-Security-Policy forbids a style sheet that is not in the document. */
  #style(): void {
    const view = this.ownerDocument.defaultView
    if (view === null || this.shadowRoot === null) return
    const sheet = new view.CSSStyleSheet()
    sheet.replaceSync(STYLE)
    this.shadowRoot.adoptedStyleSheets = [sheet]
  }

  connectedCallback(): void {
    this.#follow()
  }

  /** `moveBefore` calls this one instead of the other two. */
  connectedMoveCallback(): void {}

  /** An element that is moved is connected again in the same task. */
  disconnectedCallback(): void {
    queueMicrotask(() => {
      if (this.isConnected) return
      this.#end?.()
      this.#become('waiting')
    })
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.#follow()
  }

  /** Opens the page that the attributes name. One that is open already stays as it is. */
  #follow(): void {
    const [cid, server] = [this.getAttribute('cid'), this.getAttribute('server') ?? '/']
    const key = KEYS.map((name) => this.getAttribute(name)).find((value) => value !== null) ?? null
    const named = JSON.stringify([cid, server, key])
    if (this.#end !== null && this.#opened === named && this.#status !== 'failed') return
    this.#end?.()
    this.#become('waiting')
    // A listener may have removed this element, or opened a page by changing an attribute.
    if (!this.isConnected || this.#end !== null || cid === null) return
    try {
      this.#open(cidOfLink(cid.trim()), server, key)
      this.#opened = named
    } catch (reason) {
      this.#become('failed', sentenceOf(reason))
    }
  }

  #open(cid: Cid, server: string, key: string | null): void {
    const used = useServer(server)
    const shown = new ShownPage(used.server, cid, key, {
      change: (status, problem, state) => {
        this.#state = state
        this.#become(status, problem)
      },
      show: (node) => this.#show(node),
    })
    this.#end = () => {
      this.#end = null
      this.#state = null
      shown.close()
      used.release()
      this.#show(null)
    }
  }

  #become(status: WatchFireStatus, problem: string | null = null): void {
    if (status === this.#status && problem === this.#problem) return
    this.#status = status
    this.#problem = problem
    this.dispatchEvent(new Event('statuschange'))
  }

  /** Shows the page, or with `null` what is inside this element. */
  #show(node: HTMLElement | null): void {
    const last = this.shadowRoot?.lastElementChild
    node?.setAttribute('part', 'page')
    last?.replaceWith(node ?? document.createElement('slot'))
  }
}

interface Listener {
  change(status: WatchFireStatus, problem: string | null, state: PageState | null): void
  show(node: HTMLElement): void
}

/** A page from its opening to its end. */
class ShownPage {
  readonly #server: PageServer
  readonly #host: string
  readonly #listener: Listener
  readonly #unfollow: () => void
  #page: LinkedPage | null = null
  #isClosed = false
  #isRendering = false
  #rendered: Rendered | null = null
  /** The view of a live page. */
  #live: LiveView | null = null

  constructor(server: PageServer, cid: Cid, key: string | null, listener: Listener) {
    this.#server = server
    this.#host = new URL(server.address).host
    this.#listener = listener
    const follow = () => this.#follow(this.#page)
    this.#unfollow = server.connection.subscribe(follow)
    void this.#open(cid, key, follow)
    // The code that shows the page comes while the page does. If it does not, that is reported when it is needed.
    import('./render.ts').catch(() => undefined)
  }

  close(): void {
    this.#isClosed = true
    this.#unfollow()
    this.#page?.close()
    this.#rendered?.dispose()
  }

  async #open(cid: Cid, key: string | null, follow: () => void): Promise<void> {
    // The connection may have failed before, for another element.
    await Promise.resolve().then(follow)
    await this.#server.limits
    if (this.#isClosed) return
    try {
      const page = await this.#server.join({ cid: cid.text, filename: null, file: null, key })
      if (this.#isClosed) {
        page.close()
        return
      }
      this.#page = page
      page.subscribe(follow)
    } catch (reason) {
      if (!this.#isClosed) this.#listener.change('failed', sentenceOf(reason), null)
    }
  }

  #follow(page: LinkedPage | null): void {
    if (this.#isClosed) return
    const state = page?.state ?? null
    const isComplete = state?.phase === 'complete' && page?.listing()?.isFinal === true
    if (state?.phase === 'failed') this.#listener.change('failed', state.problems.find(({ fatal }) => fatal)?.sentence ?? null, state)
    else if (page?.privacy.kind === 'closed') this.#listener.change('locked', page.privacy.problem?.message ?? null, state)
    else if (this.#rendered !== null) this.#update(state)
    else if (page !== null && (isComplete || page.live() !== null)) void this.#render(page)
    else this.#wait(state)
  }

  /** Not all of the page is here. */
  #wait(state: PageState | null): void {
    const host = this.#host
    const connection = this.#server.connection.state
    if (connection === 'refused') this.#listener.change('failed', text('refused', { host }), state)
    else if (connection === 'offline') this.#listener.change('waiting', text('silent', { host }), state)
    else if (state?.presence.kind === 'refused') {
      this.#listener.change('waiting', text('rejected', { host, reason: state.presence.reason }), state)
    } else this.#listener.change('waiting', null, state)
  }

  #update(state: PageState | null): void {
    this.#live?.update()
    this.#listener.change('shown', null, state)
  }

  async #render(page: LinkedPage): Promise<void> {
    if (this.#isRendering) return
    this.#isRendering = true
    try {
      const view = await import('./render.ts')
      const rendered = page.live() === null ? await view.render(page, page.link) : await this.#renderLive(page)
      if (this.#isClosed) {
        rendered.dispose()
        return
      }
      this.#rendered = rendered
      this.#listener.show(rendered.node)
      this.#listener.change('shown', null, page.state)
    } catch (reason) {
      if (!this.#isClosed) this.#listener.change('failed', sentenceOf(reason), page.state)
    } finally {
      this.#isRendering = false
    }
  }

  /** The code for it is loaded with the first live page. */
  async #renderLive(page: LinkedPage): Promise<Rendered> {
    const view = await import('./live-view.ts')
    this.#live = new view.LiveView(page, page.link)
    return this.#live
  }
}

const sentenceOf = (reason: unknown): string => (reason instanceof Error ? reason.message : String(reason))
