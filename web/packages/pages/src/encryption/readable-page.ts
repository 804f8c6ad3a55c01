import { ContentError } from '../content/index.ts'
import type { BlockMap, Listing, LiveFeed, LiveSource, PageFile, PageSession, PageState } from '../swarm/index.ts'
import { swarm } from '../messages/swarm.ts'
import { PrivateError } from './error.ts'
import { readKey } from './key.ts'
import { padded, TAG_BYTES, HEADER_BYTES } from './layout.ts'
import { DecryptedContent, readWhole } from './decrypted-content.ts'
import type { Index } from './index-format.ts'
import type { ReadableContent } from './readable-content.ts'
import { isSealed } from './records.ts'

/** Whether a page is private, and whether it can be read. */
export type Privacy =
  /** Too little of the page is here to decide. */
  | { readonly kind: 'unknown' }
  /** Any peer with the CID can read it. */
  | { readonly kind: 'public' }
  /** The page is here and is served, but cannot be read. There is no key, or `problem` says what is wrong. */
  | { readonly kind: 'closed'; readonly problem: PrivateError | null }
  | { readonly kind: 'open'; readonly content: ReadableContent }

/** The length of the shortest private page. */
const SEALED_BYTES_MIN = HEADER_BYTES + padded(0) + TAG_BYTES
const NONE: Privacy = { kind: 'unknown' }

/**
 * A page as its reader sees it. A private page is fetched, stored and served as ciphertext. Its files are shown when
 * the key opens it.
 */
export class ReadablePage implements PageSession {
  readonly root: string
  readonly #session: PageSession
  readonly #listeners = new Set<(state: PageState) => void>()
  readonly #closing = new AbortController()
  #key: string | null
  #privacy: Privacy = NONE
  /** Counts the attempts to open the page, so that the result for an earlier key is ignored. */
  #attempt = 0
  #isDetecting = false
  /** The last listing of a private page. */
  #shown: { readonly index: Index; readonly complete: boolean; readonly listing: Listing } | null = null
  /** Callers that wait until `#privacy` is known. */
  #waiting: { readonly resolve: () => void; readonly reject: (reason: unknown) => void }[] = []

  /** `ours`: the content, if the page was made in this tab, or `public`. */
  constructor(held: PageSession, key: string | null, ours: ReadableContent | 'public' | null = null) {
    this.root = held.root
    this.#session = held
    this.#key = key
    if (ours !== null) this.#privacy = ours === 'public' ? { kind: 'public' } : { kind: 'open', content: ours }
    held.subscribe(() => {
      this.#detect()
      this.#report()
    })
  }

  get privacy(): Privacy {
    return this.#privacy
  }

  /** The key that was tried last. */
  get key(): string | null {
    return this.#key
  }

  get state(): PageState {
    const { state } = this.#session
    // All blocks are here, but it is not known yet whether the page is private.
    return state.phase === 'complete' && this.#privacy.kind === 'unknown' ? { ...state, phase: 'loading' } : state
  }

  subscribe(listener: (state: PageState) => void): () => void {
    this.#listeners.add(listener)
    listener(this.state)
    return () => this.#listeners.delete(listener)
  }

  /** Tries another key. */
  unlock(key: string): void {
    if (this.#privacy.kind === 'open' || this.#privacy.kind === 'public') return
    this.#key = key
    this.#privacy = NONE
    this.#isDetecting = false
    this.#detect()
    this.#report()
  }

  listing(): Listing | null {
    if (this.#privacy.kind === 'open') return this.#listingOf(this.#privacy.content.index)
    return this.#privacy.kind === 'public' ? this.#session.listing() : null
  }

  async file(path: string, options: { signal?: AbortSignal; type?: string } = {}): Promise<Blob> {
    const content = await this.#readable(path)
    return content === 'public' ? this.#session.file(path, options) : content.file(path, options)
  }

  async open(path: string, options: { signal?: AbortSignal } = {}): Promise<PageFile> {
    // Without a key, the page is public or cannot be read here. In both cases there is nothing to wait for.
    if (this.#key === null && this.#privacy.kind !== 'open') return this.#session.open(path, options)
    const content = await this.#readable(path)
    return content === 'public' ? this.#session.open(path, options) : content.open(path)
  }

  blockMap(): BlockMap | null {
    return this.#session.blockMap()
  }

  live(): LiveFeed | null {
    return this.#session.live()
  }

  append(entry: LiveSource, options?: { signal?: AbortSignal }): Promise<void> {
    return this.#session.append(entry, options)
  }

  close(): void {
    this.#closing.abort(new DOMException(swarm('closed'), 'AbortError'))
    this.#session.close()
    this.#wake()
  }

  /** The readable content, once it is known. Rejects if there is none. */
  async #readable(path: string): Promise<ReadableContent | 'public'> {
    while (this.#privacy.kind === 'unknown') {
      this.#closing.signal.throwIfAborted()
      await new Promise<void>((resolve, reject) => {
        this.#waiting.push({ resolve, reject })
        this.#detect()
      })
    }
    switch (this.#privacy.kind) {
      case 'public':
        return 'public'
      case 'open':
        return this.#privacy.content
      case 'closed':
        throw this.#privacy.problem ?? new ContentError({ kind: 'no-such-file', path })
    }
  }

  /** The same object until the page is complete, because it may have thousands of files. */
  #listingOf(index: Index): Listing {
    const complete = this.#session.state.phase === 'complete'
    if (this.#shown?.index !== index || this.#shown.complete !== complete) {
      const files = index.entries.flatMap(({ kind, path, bytes }) => (kind === 'file' ? { path, size: bytes, complete } : []))
      const links = index.entries.filter(({ kind }) => kind === 'symlink').length
      this.#shown = { index, complete, listing: { files, links, hasNames: true, isFinal: true } }
    }
    return this.#shown.listing
  }

  #wake(): void {
    for (const { resolve } of this.#waiting.splice(0)) resolve()
  }

  #report(): void {
    const { state } = this
    // An async function, so that one which throws is reported, and the others are called.
    this.#listeners.forEach(async (listener) => listener(state))
  }

  #decide(seal: Privacy): void {
    this.#privacy = seal
    this.#isDetecting = false
    this.#wake()
  }

  /** Finds out whether the page is private, as soon as its start is here. */
  #detect(): void {
    if (this.#isDetecting || this.#privacy.kind !== 'unknown') return
    // A page that has failed rejects the read, with its reason.
    if (this.#session.state.phase !== 'failed') {
      const files = this.#session.listing()?.files
      const [only] = files ?? []
      if (files === undefined || (files.length === 1 && only?.path === '' && only.size === null)) return
      if (files.length !== 1 || only?.path !== '' || (only.size ?? 0) < SEALED_BYTES_MIN) {
        this.#decide(this.#notPrivate())
        return
      }
    }
    this.#isDetecting = true
    const attempt = ++this.#attempt
    const decide = (seal: Privacy) => {
      if (attempt !== this.#attempt || this.#closing.signal.aborted) return
      this.#decide(seal)
      this.#report()
    }
    this.#open().then(decide, (reason: unknown) => {
      if (reason instanceof PrivateError) decide({ kind: 'closed', problem: reason })
      // The page could not be read this time, for example because it failed or there is no room for its start.
      else if (attempt === this.#attempt) {
        this.#isDetecting = false
        for (const { reject } of this.#waiting.splice(0)) reject(reason)
      }
    })
  }

  /** The state of a page that is not private. */
  #notPrivate(): Privacy {
    return this.#key === null ? { kind: 'public' } : { kind: 'closed', problem: new PrivateError({ kind: 'not-private' }) }
  }

  async #open(): Promise<Privacy> {
    const { signal } = this.#closing
    const sealed = await this.#session.open('', { signal })
    if (!isSealed(await readWhole(sealed.read(0, HEADER_BYTES, { signal })))) return this.#notPrivate()
    if (this.#key === null) return { kind: 'closed', problem: null }
    const key = readKey(this.#key)
    if (key === null) throw new PrivateError({ kind: 'wrong-key' })
    return { kind: 'open', content: await DecryptedContent.open(sealed, key, { signal }) }
  }
}
