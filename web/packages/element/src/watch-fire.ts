import { openPage, ReadablePage, type PageState } from '@watchfire/pages'
import { render, type Rendered } from './render.ts'
import { addressOf, useServer, type Server } from './server.ts'
import { text } from './messages/element.ts'

/**
 * - `waiting`: not all of the page is here, or the element is not in a document. The content of the element is shown.
 * - `shown`: the page is shown, and served to others.
 * - `locked`: the page is private, and the attribute `key` is missing or does not open it.
 * - `failed`: the page can never be shown; `problem` says why.
 */
export type WatchFireStatus = 'waiting' | 'shown' | 'locked' | 'failed'

const STYLE = `:host { display: block } :host([hidden]) { display: none }
[part=page] { max-width: 100% } img, video { max-width: 100%; height: auto } pre { white-space: pre-wrap; overflow-wrap: anywhere }
iframe { width: 100%; height: 100%; min-height: 20em; border: 0 }`

/**
 * `<watch-fire cid="..." server="https://..." key="...">` shows a page, or what is inside it until all of the page is here.
 * While it is shown, this tab serves the page to others. The event `statuschange` follows each change of `status`.
 */
export class WatchFire extends HTMLElement {
  static readonly observedAttributes = ['cid', 'server', 'key']
  #status: WatchFireStatus = 'waiting'
  #problem: string | null = null
  #state: PageState | null = null
  /** Ends the page that is open. */
  #end: (() => void) | null = null

  constructor() {
    super()
    const root = this.attachShadow({ mode: 'open' })
    root.append(document.createElement('style'), document.createElement('slot'))
    root.firstElementChild?.append(STYLE)
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

  connectedCallback(): void {
    this.#start()
  }

  disconnectedCallback(): void {
    this.#end?.()
    this.#become('waiting')
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.#start()
  }

  #start(): void {
    this.#end?.()
    this.#become('waiting')
    // A listener may have removed this element, or opened a page by changing an attribute.
    if (!this.isConnected || this.#end !== null) return
    const cid = this.getAttribute('cid')
    if (cid === null) return
    const address = addressOf(this.getAttribute('server') ?? '/')
    if (address === null) {
      this.#become('failed', text('server'))
      return
    }
    const server = useServer(address)
    const shown = new ShownPage(server, cid.trim(), this.getAttribute('key'), {
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
  readonly #server: Server
  readonly #listener: Listener
  #page: ReadablePage | null = null
  #isClosed = false
  #isRendering = false
  #rendered: Rendered | null = null

  constructor(server: Server, cid: string, key: string | null, listener: Listener) {
    this.#server = server
    this.#listener = listener
    void this.#open(cid, key)
  }

  close(): void {
    this.#isClosed = true
    this.#page?.close()
    this.#rendered?.dispose()
    this.#server.release()
  }

  async #open(cid: string, key: string | null): Promise<void> {
    const limits = await this.#server.limits
    if (this.#isClosed) return
    try {
      const page = new ReadablePage(openPage(cid, { connection: this.#server.connection, limits }), key)
      this.#page = page
      const fragment = key === null ? '' : `#key=${key}`
      page.subscribe((state) => this.#follow(page, state, `${this.#server.address}p/${page.root}${fragment}`))
    } catch (reason) {
      this.#listener.change('failed', sentenceOf(reason), null)
    }
  }

  #follow(page: ReadablePage, state: PageState, address: string): void {
    if (this.#isClosed) return
    const fatal = state.problems.find((problem) => problem.fatal)
    if (state.phase === 'failed') this.#listener.change('failed', fatal?.sentence ?? null, state)
    else if (page.privacy.kind === 'closed') this.#listener.change('locked', page.privacy.problem?.message ?? null, state)
    else if (this.#rendered !== null) this.#listener.change('shown', null, state)
    else if (state.phase === 'complete' && page.listing()?.isFinal === true) void this.#render(page, address)
    else this.#listener.change('waiting', null, state)
  }

  async #render(page: ReadablePage, address: string): Promise<void> {
    if (this.#isRendering) return
    this.#isRendering = true
    try {
      const rendered = await render(page, address)
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
}

const sentenceOf = (reason: unknown): string => (reason instanceof Error ? reason.message : String(reason))
