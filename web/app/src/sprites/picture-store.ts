import type { ReadonlySignal, Signal } from '@preact/signals'
import { signal } from '@preact/signals'
import { sizeText } from '../messages/index.ts'
import type { PageContent, PageSession, PageState } from '../ui/site.ts'
import { grid as text } from '../messages/grid.ts'
import { PICTURE_BYTES_MAX, PICTURES_MAX, PICTURES_OF_MINE_MAX, SEARCH_INTERVAL } from './picture-bounds.ts'

/** The current state of a picture. */
export type PictureState =
  | { kind: 'coming' }
  | { kind: 'shown'; address: string }
  /** The picture cannot be shown, for this reason. */
  | { kind: 'missing'; sentence: string }

/** A picture that survives a reload. */
export interface SavedPicture {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly isMine: boolean
}

/** The environment of a picture store. */
export interface PictureEnvironment {
  /** Shares a picture as the page of that CID from this tab. */
  share(cid: string, picture: Blob): Promise<Pick<PageSession, 'close'>>
  /** Opens a page to load a picture. */
  open(cid: string): Pick<PageSession, 'state' | 'close'>
  /** The CID of a picture as a page. */
  cidOf(bytes: Uint8Array<ArrayBuffer>): Promise<string>
  /** Returns the picture under its real type; rejects with a sentence when it may not be shown. */
  check(picture: Blob): Promise<Blob>
  readonly addresses: Pick<typeof URL, 'createObjectURL' | 'revokeObjectURL'>
  /** Calls back once after that many milliseconds; the returned function cancels it. */
  after(milliseconds: number, callback: () => void): () => void
}

interface Entry {
  readonly cid: string
  isMine: boolean
  readonly state: Signal<PictureState>
  /** The validated bytes, once they are here. */
  bytes: Uint8Array<ArrayBuffer> | null
  address: string | null
  /** Leaves the picture's topic; `null` before it was joined. */
  leave: (() => void) | null
  isGone: boolean
}

const evicted = (): PictureState => ({ kind: 'missing', sentence: text('crowded') })
const missingPicture = (): PictureState => ({ kind: 'missing', sentence: text('missing') })

/**
 * The pictures of a tab's sprites: loads the picture of an arriving sprite, shows it, and shares it with others. Holds at
 * most `PICTURES_MAX`. Beyond it, unused pictures are dropped first, least recently used first, then those of the
 * oldest sprites.
 */
export class PictureStore {
  readonly #environment: PictureEnvironment
  /** Least recently used first. */
  #entries = new Map<string, Entry>()
  readonly #states = new Map<string, Signal<PictureState>>()
  /** The pictures of the sprites in this window, oldest sprite first. */
  #inUse: readonly string[] = []
  #isRestoring = false
  #isClosed = false
  #stopWaiting: (() => void) | null = null

  constructor(environment: PictureEnvironment) {
    this.#environment = environment
  }

  /** The state of a sprite's picture, as a signal. */
  state(cid: string): ReadonlySignal<PictureState> {
    return this.#stateOf(cid)
  }

  /** Sets the pictures of the sprites in this window, oldest sprite first. */
  use(cids: readonly string[]): void {
    this.#inUse = [...new Set(cids)]
    if (this.#isRestoring || this.#isClosed) return
    for (const cid of this.#inUse) {
      if (!this.#entries.has(cid)) this.#add(cid, false)
    }
    this.#evict()
    this.#search()
  }

  /** Adds a picture and returns its CID; rejects when it is not a valid picture. */
  async add({ bytes, isMine }: SavedPicture): Promise<string> {
    const checked = await this.#environment.check(new Blob([bytes]))
    const cid = await this.#environment.cidOf(bytes)
    if (this.#isClosed) return cid
    const entry = this.#entries.get(cid) ?? this.#add(cid, isMine)
    entry.isMine ||= isMine
    // Moves the entry to the most recently used position.
    this.#entries.delete(cid)
    this.#entries.set(cid, entry)
    if (entry.bytes === null) {
      entry.leave?.()
      this.#show(entry, bytes, checked)
      this.#share(entry, checked)
    }
    this.#evict(cid)
    return cid
  }

  /** Adds saved pictures. Nothing is searched meanwhile, because a saved picture may be the one searched for. */
  async restore(kept: readonly SavedPicture[]): Promise<void> {
    this.#isRestoring = true
    await Promise.allSettled(kept.slice(-PICTURES_MAX).map((picture) => this.add(picture)))
    this.#isRestoring = false
    this.use(this.#inUse)
  }

  /** The pictures to save across a reload: this tab's own, and those of its sprites. */
  saved(): SavedPicture[] {
    const kept: SavedPicture[] = []
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

  #stateOf(cid: string): Signal<PictureState> {
    const known = this.#states.get(cid)
    if (known !== undefined) return known
    const state = signal<PictureState>({ kind: 'coming' })
    this.#states.set(cid, state)
    return state
  }

  #add(cid: string, isMine: boolean): Entry {
    const state = this.#stateOf(cid)
    state.value = { kind: 'coming' }
    const entry = { cid, isMine, state, bytes: null, address: null, leave: null, isGone: false }
    this.#entries.set(cid, entry)
    return entry
  }

  /** Drops pictures beyond the limits; `newest` is about to be used. */
  #evict(newest: string | null = null): void {
    const used = new Set([...this.#inUse, ...(newest === null ? [] : [newest])])
    const idle = [...this.#entries.values()].filter(({ cid }) => !used.has(cid))
    const busy = [...used].map((cid) => this.#entries.get(cid)).filter((entry) => entry !== undefined)
    const inOrder = [...idle, ...busy]
    const mine = inOrder.filter(({ isMine }) => isMine).slice(-PICTURES_OF_MINE_MAX)
    const others = inOrder.filter(({ isMine }) => !isMine).slice(-(PICTURES_MAX - mine.length))
    const kept = new Set([...mine, ...others])
    for (const entry of inOrder) if (!kept.has(entry)) this.#end(entry)
    this.#entries = new Map(inOrder.filter((entry) => kept.has(entry)).map((entry) => [entry.cid, entry]))
    for (const cid of this.#states.keys()) if (!used.has(cid) && !this.#entries.has(cid)) this.#states.delete(cid)
  }

  #end(entry: Entry): void {
    entry.isGone = true
    entry.leave?.()
    entry.state.value = evicted()
    if (entry.address !== null) this.#environment.addresses.revokeObjectURL(entry.address)
  }

  /** Starts the next search, and continues until every picture has been searched for. */
  #search(): void {
    if (this.#stopWaiting !== null || this.#isClosed) return
    const next = [...this.#entries.values()].find(({ leave }) => leave === null)
    if (next === undefined) return
    this.#seek(next)
    this.#stopWaiting = this.#environment.after(SEARCH_INTERVAL, () => {
      this.#stopWaiting = null
      this.#search()
    })
  }

  #seek(entry: Entry): void {
    const session = this.#environment.open(entry.cid)
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
      } else entry.state.value = pictureStateOf(state)
    })
  }

  async #take(entry: Entry, content: PageContent): Promise<void> {
    try {
      if (content.kind !== 'file') throw new Error(text('folder'))
      if (content.size > PICTURE_BYTES_MAX) {
        throw new Error(text('heavy', { size: sizeText(PICTURE_BYTES_MAX) }))
      }
      const picture = await content.blob()
      const checked = await this.#environment.check(picture)
      const bytes = new Uint8Array(await picture.arrayBuffer())
      if (!entry.isGone && entry.bytes === null) this.#show(entry, bytes, checked)
    } catch (reason) {
      if (entry.isGone || entry.bytes !== null) return
      // An invalid picture is not shared with others either.
      entry.leave?.()
      entry.state.value = { kind: 'missing', sentence: reason instanceof Error ? reason.message : String(reason) }
    }
  }

  #show(entry: Entry, bytes: Uint8Array<ArrayBuffer>, checked: Blob): void {
    entry.bytes = bytes
    entry.address = this.#environment.addresses.createObjectURL(checked)
    entry.state.value = { kind: 'shown', address: entry.address }
  }

  #share(entry: Entry, picture: Blob): void {
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
    // Without a connection the picture is still shown here.
    this.#environment.share(entry.cid, picture).then(held, () => undefined)
  }
}

function pictureStateOf(state: Exclude<PageState, { kind: 'held' }>): PictureState {
  switch (state.kind) {
    case 'joining':
    case 'loading':
      return { kind: 'coming' }
    case 'waiting':
      return missingPicture()
    case 'refused':
      return { kind: 'missing', sentence: text('refusedPicture', { reason: state.reason }) }
    case 'locked':
      return { kind: 'missing', sentence: text('privatePicture') }
  }
}
