import type { ReadonlySignal, Signal } from '@preact/signals'
import { signal } from '@preact/signals'
import { sizeText } from '../ui/sizes.ts'
import type { PageContent, PageSession, PageState } from '../ui/site.ts'
import { plane as words } from '../words/plane.ts'
import { PICTURE_BYTES_MAX, PICTURES_MAX, PICTURES_OF_MINE_MAX, SEARCH_INTERVAL } from './picture-bounds.ts'

/** How a picture can be shown now. */
export type Look =
  | { kind: 'coming' }
  | { kind: 'shown'; address: string }
  /** There is none to show, and why. */
  | { kind: 'missing'; sentence: string }

/** A picture that outlives a reload. */
export interface KeptPicture {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly isMine: boolean
}

/** What an album needs of the world. */
export interface Surroundings {
  /** Holds a picture as the page of that name, from this tab. */
  kindle(cid: string, picture: Blob): Promise<Pick<PageSession, 'close'>>
  /** Looks for a page among those who have it open. */
  open(cid: string): Pick<PageSession, 'state' | 'close'>
  /** The CID that a picture has as a page. */
  cidOf(bytes: Uint8Array<ArrayBuffer>): Promise<string>
  /** The picture under its true type; rejects with a sentence when it may not be shown. */
  check(picture: Blob): Promise<Blob>
  readonly addresses: Pick<typeof URL, 'createObjectURL' | 'revokeObjectURL'>
  /** Calls once, after that many milliseconds; the returned function takes it back. */
  after(milliseconds: number, callback: () => void): () => void
}

interface Entry {
  readonly cid: string
  isMine: boolean
  readonly look: Signal<Look>
  /** All of it, once it is here and was found good. */
  bytes: Uint8Array<ArrayBuffer> | null
  address: string | null
  /** Ends what was begun on its topic; `null` before anything was. */
  leave: (() => void) | null
  isGone: boolean
}

const givenUp = (): Look => ({ kind: 'missing', sentence: words('crowded') })
const nobodyHasIt = (): Look => ({ kind: 'missing', sentence: words('missing') })

/**
 * The pictures of a tab's sprites: looked for when a sprite comes with one, shown, and held for the next. At most
 * `PICTURES_MAX`; over it those go first that no sprite here needs, least recently used first, and then those of the
 * sprites that are here longest.
 */
export class Album {
  readonly #world: Surroundings
  /** The least recently used first. */
  #entries = new Map<string, Entry>()
  readonly #looks = new Map<string, Signal<Look>>()
  /** The pictures of the sprites here, the longest here first. */
  #inUse: readonly string[] = []
  #isRestoring = false
  #isClosed = false
  #stopWaiting: (() => void) | null = null

  constructor(world: Surroundings) {
    this.#world = world
  }

  /** How a sprite's picture looks; it changes when the picture comes, or goes. */
  look(cid: string): ReadonlySignal<Look> {
    return this.#lookOf(cid)
  }

  /** These are the pictures of the sprites here now, the longest here first. */
  use(cids: readonly string[]): void {
    this.#inUse = [...new Set(cids)]
    if (this.#isRestoring || this.#isClosed) return
    for (const cid of this.#inUse) {
      if (!this.#entries.has(cid)) this.#add(cid, false)
    }
    this.#giveUp()
    this.#search()
  }

  /** Holds a picture and answers its CID; rejects when it is none. */
  async hold({ bytes, isMine }: KeptPicture): Promise<string> {
    const checked = await this.#world.check(new Blob([bytes]))
    const cid = await this.#world.cidOf(bytes)
    if (this.#isClosed) return cid
    const entry = this.#entries.get(cid) ?? this.#add(cid, isMine)
    entry.isMine ||= isMine
    // As recently used as can be.
    this.#entries.delete(cid)
    this.#entries.set(cid, entry)
    if (entry.bytes === null) {
      entry.leave?.()
      this.#show(entry, bytes, checked)
      this.#kindle(entry, checked)
    }
    this.#giveUp(cid)
    return cid
  }

  /** Holds what was kept over a reload; nothing is looked for meanwhile, lest it be looked for in vain. */
  async restore(kept: readonly KeptPicture[]): Promise<void> {
    this.#isRestoring = true
    await Promise.allSettled(kept.slice(-PICTURES_MAX).map((picture) => this.hold(picture)))
    this.#isRestoring = false
    this.use(this.#inUse)
  }

  /** What a reload should not lose: this tab's own, and what its sprites show. */
  kept(): KeptPicture[] {
    const kept: KeptPicture[] = []
    for (const { cid, bytes, isMine } of this.#entries.values()) {
      if (bytes !== null && (isMine || this.#inUse.includes(cid))) kept.push({ bytes, isMine })
    }
    return kept
  }

  close(): void {
    this.#isClosed = true
    this.#stopWaiting?.()
    for (const entry of this.#entries.values()) this.#end(entry)
    this.#entries.clear()
  }

  #lookOf(cid: string): Signal<Look> {
    const known = this.#looks.get(cid)
    if (known !== undefined) return known
    const look = signal<Look>({ kind: 'coming' })
    this.#looks.set(cid, look)
    return look
  }

  #add(cid: string, isMine: boolean): Entry {
    const look = this.#lookOf(cid)
    look.value = { kind: 'coming' }
    const entry = { cid, isMine, look, bytes: null, address: null, leave: null, isGone: false }
    this.#entries.set(cid, entry)
    return entry
  }

  /** Keeps to the bounds; `newest` is about to be used. */
  #giveUp(newest: string | null = null): void {
    const used = new Set([...this.#inUse, ...(newest === null ? [] : [newest])])
    const idle = [...this.#entries.values()].filter(({ cid }) => !used.has(cid))
    const busy = [...used].map((cid) => this.#entries.get(cid)).filter((entry) => entry !== undefined)
    const inOrder = [...idle, ...busy]
    const mine = inOrder.filter(({ isMine }) => isMine).slice(-PICTURES_OF_MINE_MAX)
    const others = inOrder.filter(({ isMine }) => !isMine).slice(-(PICTURES_MAX - mine.length))
    const kept = new Set([...mine, ...others])
    for (const entry of inOrder) if (!kept.has(entry)) this.#end(entry)
    this.#entries = new Map(inOrder.filter((entry) => kept.has(entry)).map((entry) => [entry.cid, entry]))
    for (const cid of this.#looks.keys()) if (!used.has(cid) && !this.#entries.has(cid)) this.#looks.delete(cid)
  }

  #end(entry: Entry): void {
    entry.isGone = true
    entry.leave?.()
    entry.look.value = givenUp()
    if (entry.address !== null) this.#world.addresses.revokeObjectURL(entry.address)
  }

  /** Begins with the next that nobody looked for yet, and goes on until there is none. */
  #search(): void {
    if (this.#stopWaiting !== null || this.#isClosed) return
    const next = [...this.#entries.values()].find(({ leave }) => leave === null)
    if (next === undefined) return
    this.#seek(next)
    this.#stopWaiting = this.#world.after(SEARCH_INTERVAL, () => {
      this.#stopWaiting = null
      this.#search()
    })
  }

  #seek(entry: Entry): void {
    const session = this.#world.open(entry.cid)
    let hasCome = false
    let hasLeft = false
    let stop = () => {}
    entry.leave = () => {
      if (hasLeft) return
      hasLeft = true
      stop()
      session.close()
    }
    stop = session.state.subscribe((state) => {
      if (hasCome || hasLeft) return
      if (state.kind === 'held') {
        hasCome = true
        void this.#take(entry, state.content)
      } else entry.look.value = lookOf(state)
    })
  }

  async #take(entry: Entry, content: PageContent): Promise<void> {
    try {
      if (content.kind !== 'file') throw new Error(words('folder'))
      if (content.size > PICTURE_BYTES_MAX) {
        throw new Error(words('heavy', { size: sizeText(PICTURE_BYTES_MAX) }))
      }
      const picture = await content.blob()
      const checked = await this.#world.check(picture)
      const bytes = new Uint8Array(await picture.arrayBuffer())
      if (!entry.isGone && entry.bytes === null) this.#show(entry, bytes, checked)
    } catch (reason) {
      if (entry.isGone || entry.bytes !== null) return
      // What is no picture is not held for others either.
      entry.leave?.()
      entry.look.value = { kind: 'missing', sentence: reason instanceof Error ? reason.message : String(reason) }
    }
  }

  #show(entry: Entry, bytes: Uint8Array<ArrayBuffer>, checked: Blob): void {
    entry.bytes = bytes
    entry.address = this.#world.addresses.createObjectURL(checked)
    entry.look.value = { kind: 'shown', address: entry.address }
  }

  #kindle(entry: Entry, picture: Blob): void {
    let session: Pick<PageSession, 'close'> | null = null
    let hasLeft = false
    entry.leave = () => {
      hasLeft = true
      session?.close()
    }
    const held = (kindled: Pick<PageSession, 'close'>) => {
      session = kindled
      if (hasLeft) kindled.close()
    }
    // Without a connection it is shown here all the same, and there is nobody to throw it to.
    this.#world.kindle(entry.cid, picture).then(held, () => undefined)
  }
}

function lookOf(state: Exclude<PageState, { kind: 'held' }>): Look {
  switch (state.kind) {
    case 'joining':
    case 'loading':
      return { kind: 'coming' }
    case 'waiting':
      return nobodyHasIt()
    case 'refused':
      return { kind: 'missing', sentence: words('refusedPicture', { reason: state.reason }) }
    case 'locked':
      return { kind: 'missing', sentence: words('privatePicture') }
  }
}
