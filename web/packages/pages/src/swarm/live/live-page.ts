import type { Block } from '../../bitswap/index.ts'
import {
  type BlockStore,
  blocksInOrder,
  type Bytes,
  type Cid,
  type CidKey,
  cidOf,
  concat,
  ContentError,
  DAG_PB,
  type FileListing,
  findFile,
  type FindResult,
  RAW,
  type WantedBlock,
} from '../../content/index.ts'
import {
  type Beginning,
  decodeBeginning,
  decodeEntry,
  ENTRIES_MAX,
  type Entry,
  type Head,
  HEAD_BYTES,
  History,
  LiveError,
  type Offer,
  verifyHead,
} from '../../live/index.ts'
import { livePages } from '../../messages/live.ts'
import type { LiveFeed, LiveSource } from '../api.ts'
import { HeadExchange, type HeadExchangeDeps } from './heads.ts'
import { feedOf, listLive, pathOf } from './listing.ts'
import { buildContent } from './publish.ts'
import { Publisher } from './publisher.ts'

/** Entries that may wait to be appended. */
const APPENDS_MAX = 64
/** A content of at most this many bytes goes with the head of its entry. */
const VOUCHED_CONTENT_BYTES_MAX = 2048
/** Heads in the notes of an earlier visit that are verified. The store has two notes, and each has at most two heads. */
const NOTED_HEADS_MAX = 4

/** The open page that a live page belongs to. */
interface OpenPage extends Pick<HeadExchangeDeps, 'clock' | 'peers'> {
  readonly store: BlockStore
  /** The most bytes of the page. */
  readonly bytesMax: number
  /** Blocks became known. */
  readonly onChange: () => void
}

/** A live page as a page's download uses it: its history, and the blocks that belong to it. */
export class LivePage {
  readonly #history: History
  /** `null` in the tabs of readers. */
  readonly #publisher: Publisher | null
  #open: OpenPage | null = null
  #heads: HeadExchange | null = null
  /** All nodes that the download was told to fetch, also those that the history does not know any more. */
  readonly #nodes = new Set<CidKey>()
  /** The heads that the store has for a later visit. */
  #kept: readonly Head[] = []
  /** The last result of `feed`; `null` when the history has changed since. */
  #feed: LiveFeed | null = null
  /** Resolves when the last entry is appended. */
  #appended: Promise<void> = Promise.resolve()
  #appending = 0

  private constructor(history: History, publisher: Publisher | null) {
    this.#history = history
    this.#publisher = publisher
  }

  /** The live page with this first block; `null` if the block is not valid. */
  static begin(page: Cid, bytes: Bytes, publisher: Publisher | null = null): LivePage | null {
    const beginning = beginningOf(page, bytes)
    return beginning && new LivePage(new History(page, beginning), publisher)
  }

  /** The same, with the key that this tab has if it began the page before it was reloaded. */
  static async resume(page: Cid, bytes: Bytes, store: BlockStore): Promise<LivePage | null> {
    const beginning = beginningOf(page, bytes)
    return beginning && new LivePage(new History(page, beginning), await Publisher.resume(beginning.key, store))
  }

  /** Whether all entries are here that are known. Their contents may be missing. */
  get isComplete(): boolean {
    return this.#history.isComplete
  }

  get isSplit(): boolean {
    return this.#history.split !== null
  }

  /** The heads that peers should have. */
  get heads(): readonly Head[] {
    return this.#history.heads
  }

  /** Whether a block is a node, and not content. */
  isNode({ key }: Cid): boolean {
    return this.#nodes.has(key)
  }

  /** The block of a node is here. Returns whether the history was waiting for it. */
  insert(cid: Cid, bytes: Bytes): boolean {
    this.#feed = null
    try {
      return this.#history.insert({ cid, bytes })
    } catch (error) {
      if (!(error instanceof LiveError)) throw error
      return true // The history keeps the number of the invalid entry.
    } finally {
      this.#keepHeads()
      this.#heads?.noteEntry()
    }
  }

  /**
   * The nodes and contents that became known since the last call, perhaps some of them again. The history gets the nodes that are
   * in the store already: their blocks arrived while a newer head had replaced theirs.
   */
  takeWanted(store: Pick<BlockStore, 'get'>): WantedBlock[] {
    const nodes: Cid[] = []
    const entries: Entry[] = []
    for (let hasMore = true; hasMore; ) {
      const news = this.#history.takeNews()
      nodes.push(...news.nodes)
      entries.push(...news.entries)
      hasMore = news.nodes.map((cid) => this.#insertFrom(store, cid)).includes(true)
    }
    for (const { key } of nodes) this.#nodes.add(key)
    return [
      ...nodes.map((cid): WantedBlock => ({ cid, size: null, rank: 'inner' })),
      ...entries.map(({ content: cid, contentBytes }): WantedBlock => {
        return cid.codec === RAW ? { cid, size: contentBytes, rank: 'leaf' } : { cid, size: null, rank: 'inner' }
      }),
    ]
  }

  #insertFrom(store: Pick<BlockStore, 'get'>, cid: Cid): boolean {
    const block = store.get(cid)
    return block instanceof Uint8Array && this.insert(cid, block)
  }

  isOld(bytes: Bytes): boolean {
    return this.#history.isOld(bytes)
  }

  /** Rejects with a `LiveError` if the head is not valid. */
  verify(bytes: Bytes): Promise<Head> {
    return verifyHead(bytes, this.#history.page, this.#history.beginning.key)
  }

  /** Takes a verified head, and blocks of its entry that are verified too. */
  offer(head: Head, blocks: readonly Block[] = []): Offer {
    this.#feed = null
    const offer = this.#history.offer(head)
    if (offer === 'newer') this.#store(blocks)
    if (offer === 'newer' || offer === 'split') this.#open?.onChange()
    this.#keepHeads()
    return offer
  }

  /** The valid heads of an earlier visit, the oldest first: in its notes, and the last one that its key has signed. */
  async keptHeads(notes: readonly Bytes[]): Promise<Head[]> {
    const encoded = notes.flatMap((note) => inPieces(note, HEAD_BYTES)).slice(0, NOTED_HEADS_MAX)
    const signed = this.#publisher?.signedBefore ?? null
    if (signed !== null) encoded.push(signed)
    const heads: Head[] = []
    for (const bytes of encoded) {
      try {
        heads.push(await this.verify(bytes))
      } catch (error) {
        // A tab that ended while it wrote has left a part of a note.
        if (!(error instanceof LiveError)) throw error
      }
    }
    return heads.sort((a, b) => a.number - b.number)
  }

  /** Takes the heads of an earlier visit. Peers that came before them were greeted without a head, so they get them now. */
  resume(heads: readonly Head[]): void {
    for (const head of heads) this.offer(head)
    if (heads.length > 0) this.#heads?.announce()
  }

  async vouched(head: Head): Promise<Bytes[]> {
    const store = this.#open?.store
    const node = store?.get(head.entry)
    if (store === undefined || !(node instanceof Uint8Array)) return []
    try {
      const { content, contentBytes } = decodeEntry(node)
      const isShort = content.codec === RAW && contentBytes <= VOUCHED_CONTENT_BYTES_MAX && store.has(content)
      return isShort ? [node, await store.read(content)] : [node]
    } catch (error) {
      // An invalid entry, or a block that was lost.
      if (error instanceof LiveError || error instanceof ContentError) return []
      throw error
    }
  }

  async verifyVouched(head: Head, [node, content]: readonly Bytes[]): Promise<Block[]> {
    if (node === undefined || head.number <= (this.heads[0]?.number ?? 0)) return []
    const cid = await cidOf(DAG_PB, node)
    if (cid.key !== head.entry.key) return []
    const blocks = [{ cid, data: node }]
    try {
      const entry = decodeEntry(node)
      const contentCid = content === undefined ? null : await cidOf(RAW, content)
      if (content !== undefined && contentCid?.key === entry.content.key) blocks.push({ cid: contentCid, data: content })
    } catch (error) {
      // The history finds out that the entry is invalid.
      if (!(error instanceof LiveError)) throw error
    }
    return blocks
  }

  #store(blocks: readonly Block[]): void {
    try {
      for (const { cid, data } of blocks) this.#open?.store.put(cid, data)
    } catch (error) {
      // Without room, the blocks are requested, and the page says that the store is full.
      if (!(error instanceof ContentError)) throw error
    }
  }

  /** Stores the heads for a later visit, after the blocks of their entries. */
  #keepHeads(): void {
    const heads = this.#history.startingHeads
    if (this.#open === null || (heads.length === this.#kept.length && heads.every((head, i) => head === this.#kept[i]))) return
    this.#kept = heads
    this.#open.store.putNote(concat(heads.map(({ bytes }) => bytes)))
  }

  /** Begins to exchange heads with the peers of the open page. */
  open(page: OpenPage): HeadExchange {
    this.#open = page
    this.#heads = new HeadExchange({ clock: page.clock, peers: page.peers, page: this })
    return this.#heads
  }

  /** Appends an entry, after those that are being appended. Its blocks are put into the store of the page. */
  async append(entry: LiveSource, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.#appending >= APPENDS_MAX) throw new Error(livePages('busy'))
    this.#appending++
    const appended = this.#appended.then(() => this.#append(entry, signal))
    this.#appended = appended.catch(() => undefined)
    try {
      await appended
    } finally {
      this.#appending--
    }
  }

  async #append(entry: LiveSource, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    const publisher = this.#publisher
    if (publisher === null || this.#open === null) throw new Error('cannot append an entry: only its author can')
    const { store, bytesMax, onChange } = this.#open
    if (this.isSplit) throw new Error(livePages('split'))
    // After a reload, an entry may be missing whose number must not be signed again.
    if (!this.isComplete) throw new Error(livePages('incomplete'))
    if (this.#history.last >= ENTRIES_MAX) throw new Error(livePages('full'))
    const { cid, dagBytes } = await buildContent(store, entry, bytesMax, signal)
    signal?.throwIfAborted()
    const { form, name } = entry
    const fresh = { timeMs: Date.now(), form, name, content: cid, contentBytes: dagBytes }
    const { page, head: before } = this.#history
    try {
      await this.#history.append((number, node) => publisher.sign(page, number, node, before), fresh)
    } finally {
      // Also when the key could not be stored, which the page says.
      this.#feed = null
    }
    this.#keepHeads()
    onChange()
    this.#heads?.announce()
  }

  /** Whether `feed` has changed since it was read. */
  get hasNews(): boolean {
    return this.#feed === null
  }

  /** The same object as before, unless something has changed. */
  get feed(): LiveFeed {
    this.#feed ??= feedOf(this.#history, this.#publisher)
    return this.#feed
  }

  list(store: BlockStore): FileListing {
    return listLive(store, this.#history.entries)
  }

  /** Follows a path of the listing. */
  find(store: Pick<BlockStore, 'get'>, path: string): FindResult {
    for (const entry of this.#history.entries) {
      const top = pathOf(entry)
      if (path === top) return { kind: 'file', cid: entry.content }
      if (path.startsWith(`${top}/`)) return findFile(store, entry.content, path.slice(top.length + 1))
    }
    return { kind: 'nothing' }
  }

  /** All known blocks in the order of the entries. */
  blocksInOrder(store: BlockStore): Cid[] {
    const contents = this.#history.entries.flatMap(({ content }) => blocksInOrder(store, content))
    const all = [this.#history.page, ...this.#history.nodes, ...contents]
    return [...new Map(all.map((cid) => [cid.key, cid])).values()]
  }
}

/** `null` if the first block is not that of a live page. */
function beginningOf(page: Cid, bytes: Bytes): Beginning | null {
  if (page.codec !== DAG_PB) return null
  try {
    return decodeBeginning(bytes)
  } catch (error) {
    if (error instanceof LiveError) return null
    throw error
  }
}

function inPieces(bytes: Bytes, length: number): Bytes[] {
  return Array.from({ length: Math.ceil(bytes.length / length) }, (_, i) => bytes.slice(i * length, (i + 1) * length))
}
