import { connect, type Connection } from '@watchfire/client/connection'
import { ReadablePage } from './encryption/readable-page.ts'
import type { ReadableContent } from './encryption/readable-content.ts'
import { fetchLimits, type Limits } from './limits/index.ts'
import { pageAddress, type PageLink } from './links/addresses.ts'
import { servers as text } from './messages/servers.ts'
import type { PageSession, Publication } from './swarm/api.ts'
import { loadDialling, loadLive, openPage } from './swarm/index.ts'

/** A page that this tab has made. */
export interface OwnPage {
  readonly publication: Publication
  readonly content: ReadableContent | 'public'
}

/** A page of a server. */
export class LinkedPage extends ReadablePage {
  readonly #place: PageLink
  readonly #server: string
  readonly #closing: AbortSignal
  readonly #end = () => this.close()

  /** `server`: its address. `closing`: closes the page. */
  constructor(session: PageSession, place: PageLink, server: string, closing: AbortSignal, content: OwnPage['content'] | null) {
    super(session, place.key, content)
    this.#place = place
    this.#server = server
    this.#closing = closing
    closing.addEventListener('abort', this.#end)
  }

  /** The link to the page, with the key of a private page. */
  get link(): string {
    const { cid, filename, file } = this.#place
    return new URL(pageAddress(cid, filename, this.key, file), this.#server).href
  }

  override close(): void {
    this.#closing.removeEventListener('abort', this.#end)
    super.close()
  }
}

/** A server, and the connection and the limits that its pages share. Both are requested when they are first used. */
export class PageServer {
  /** With a slash at its end. */
  readonly address: string
  readonly #closing = new AbortController()
  #connection: Connection | null = null
  #limits: Promise<Limits> | null = null

  /** `address`: a URL, or a path of the document's own server. Throws an error with a sentence for people if it is not valid. */
  constructor(address = '/') {
    const base = globalThis.document?.baseURI
    // A host alone would be a path below the document.
    const url = /^\s*(?:https?:|\/|$)/i.test(address) && URL.canParse(address, base) ? new URL('/', new URL(address, base)) : null
    if (url === null || !/^https?:$/.test(url.protocol)) throw new Error(text('address', { address }))
    this.address = url.href
  }

  /** Throws if the browser forbids the connection, such as one without TLS from a document with TLS. */
  get connection(): Connection {
    if (this.#closing.signal.aborted) throw new Error(text('closed'))
    this.#connection ??= connect(`${this.address.replace(/^http/, 'ws')}socket`)
    return this.#connection
  }

  /** Those of the server, or the defaults if it does not tell them. Never rejects. */
  get limits(): Promise<Limits> {
    this.#limits ??= fetchLimits(fetch, { url: `${this.address}limits` })
    return this.#limits
  }

  /**
   * Opens a page, also one that this tab has made. Rejects with a sentence for people if the CID is not valid. `at`: the origins of
   * further servers at which the page may be.
   */
  async join(place: PageLink, own: OwnPage | null = null, at: readonly string[] = []): Promise<LinkedPage> {
    // It opens while the limits come.
    void this.connection
    const limits = await this.limits
    const deps = { connection: this.connection, limits, at: () => at, live: loadLive, direct: loadDialling }
    const session = openPage(place.cid, own === null ? deps : { ...deps, publication: own.publication })
    return new LinkedPage(session, place, this.address, this.#closing.signal, own?.content ?? null)
  }

  /** Closes all pages and the connection. */
  close(): void {
    this.#closing.abort()
    this.#connection?.close()
  }
}
