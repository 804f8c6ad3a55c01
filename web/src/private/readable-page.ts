import { ContentError } from '../content/index.ts'
import type { BlockMap, Entry, PageFile, PageSession, PageState } from '../swarm/index.ts'
import { swarm } from '../words/swarm.ts'
import { PrivateError } from './error.ts'
import { readKey } from './key.ts'
import { padded, TAG_BYTES, HEADER_BYTES } from './layout.ts'
import { OpenedContent, readWhole } from './opened.ts'
import type { Readable } from './readable.ts'
import { isSealed } from './records.ts'

/** What a page shows of whether it is private. */
export type Seal =
  /** Too little of it is here to tell. */
  | { readonly kind: 'unknown' }
  /** Anybody with the CID can read it. */
  | { readonly kind: 'public' }
  /** It is here and held, and cannot be read: there is no key, or `problem` says what is wrong. */
  | { readonly kind: 'closed'; readonly problem: PrivateError | null }
  | { readonly kind: 'open'; readonly content: Readable }

/** No private page is shorter. */
const SEALED_BYTES_MIN = HEADER_BYTES + padded(0) + TAG_BYTES
const NONE: Seal = { kind: 'unknown' }

/**
 * A page as its reader sees it, private or not: a private one is fetched, held and served as ciphertext, and shows its
 * files when the key opens it.
 */
export class ReadablePage implements PageSession {
  readonly root: string
  readonly #held: PageSession
  readonly #listeners = new Set<(state: PageState) => void>()
  readonly #stop: () => void
  readonly #closing = new AbortController()
  #key: string | null
  #seal: Seal = NONE
  /** Counts the attempts to open it, so that one with an old key does not win. */
  #attempt = 0
  #isLooking = false
  /** Those who wait for it to be decided what the page is. */
  #waiting: (() => void)[] = []

  /** `ours` is the content where it was made, or that it is no secret. */
  constructor(held: PageSession, key: string | null, ours: Readable | 'public' | null = null) {
    this.root = held.root
    this.#held = held
    this.#key = key
    if (ours !== null) this.#seal = ours === 'public' ? { kind: 'public' } : { kind: 'open', content: ours }
    this.#stop = held.subscribe(() => {
      this.#look()
      this.#report()
    })
  }

  get seal(): Seal {
    return this.#seal
  }

  get state(): PageState {
    const { state } = this.#held
    // All blocks are here, and it is not known yet what they are.
    return state.phase === 'complete' && this.#seal.kind === 'unknown' ? { ...state, phase: 'loading' } : state
  }

  subscribe(listener: (state: PageState) => void): () => void {
    this.#listeners.add(listener)
    listener(this.state)
    return () => this.#listeners.delete(listener)
  }

  /** Tries another key. */
  unlock(key: string): void {
    if (this.#seal.kind === 'open' || this.#seal.kind === 'public') return
    this.#key = key
    this.#seal = NONE
    this.#isLooking = false
    this.#look()
    this.#report()
  }

  entries(): readonly Entry[] | null {
    switch (this.#seal.kind) {
      case 'unknown':
      case 'closed':
        return null
      case 'public':
        return this.#held.entries()
      case 'open': {
        const complete = this.#held.state.phase === 'complete'
        const files = this.#seal.content.index.entries.filter(({ kind }) => kind === 'file')
        return files.map(({ path, bytes }) => ({ path, size: bytes, complete }))
      }
    }
  }

  async file(path: string, options: { signal?: AbortSignal; type?: string } = {}): Promise<Blob> {
    const content = await this.#readable(path)
    return content === 'public' ? this.#held.file(path, options) : content.file(path, options)
  }

  async open(path: string, options: { signal?: AbortSignal } = {}): Promise<PageFile> {
    // Without a key it is public, or nobody here reads it: so nobody needs to wait for which it is.
    if (this.#key === null && this.#seal.kind !== 'open') return this.#held.open(path, options)
    const content = await this.#readable(path)
    return content === 'public' ? this.#held.open(path, options) : content.open(path)
  }

  blockMap(): BlockMap | null {
    return this.#held.blockMap()
  }

  close(): void {
    this.#stop()
    this.#closing.abort(new DOMException(swarm('closed'), 'AbortError'))
    this.#held.close()
    this.#wake()
  }

  /** What is read, once that is known; rejects when it is nothing. */
  async #readable(path: string): Promise<Readable | 'public'> {
    while (this.#seal.kind === 'unknown') {
      this.#closing.signal.throwIfAborted()
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
    switch (this.#seal.kind) {
      case 'public':
        return 'public'
      case 'open':
        return this.#seal.content
      case 'closed':
        throw this.#seal.problem ?? new ContentError({ kind: 'no-such-file', path })
    }
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const wake of waiting) wake()
  }

  #report(): void {
    const { state } = this
    for (const listener of this.#listeners) listener(state)
  }

  #decide(seal: Seal): void {
    this.#seal = seal
    this.#isLooking = false
    this.#wake()
  }

  /** Finds out what it is, as soon as its beginning is here. */
  #look(): void {
    if (this.#isLooking || this.#seal.kind !== 'unknown') return
    const entries = this.#held.entries()
    const [only] = entries ?? []
    if (entries === null || (entries.length === 1 && only?.path === '' && only.size === null)) return
    if (entries.length !== 1 || only?.path !== '' || (only.size ?? 0) < SEALED_BYTES_MIN) {
      this.#decide(this.#unsealed())
      return
    }
    this.#isLooking = true
    const attempt = ++this.#attempt
    const decide = (seal: Seal) => {
      if (attempt !== this.#attempt || this.#closing.signal.aborted) return
      this.#decide(seal)
      this.#report()
    }
    this.#open().then(decide, (reason: unknown) => {
      if (reason instanceof PrivateError) decide({ kind: 'closed', problem: reason })
      // It could not be read this time, as when the page fails: then that is told.
      else if (attempt === this.#attempt) this.#isLooking = false
    })
  }

  /** What a page is that is not private. */
  #unsealed(): Seal {
    return this.#key === null ? { kind: 'public' } : { kind: 'closed', problem: new PrivateError({ kind: 'not-private' }) }
  }

  async #open(): Promise<Seal> {
    const { signal } = this.#closing
    const sealed = await this.#held.open('', { signal })
    if (!isSealed(await readWhole(sealed.read(0, HEADER_BYTES, { signal })))) return this.#unsealed()
    if (this.#key === null) return { kind: 'closed', problem: null }
    const key = readKey(this.#key)
    if (key === null) throw new PrivateError({ kind: 'wrong-key' })
    return { kind: 'open', content: await OpenedContent.open(sealed, key, { signal }) }
  }
}
