import type { Connection } from '@watchfire/client/connection'
import type { PeerId } from '../bitswap/index.ts'
import type { BlockStore, Bytes, Cid, Leaf } from '../content/index.ts'
import type { Limits } from '../limits/index.ts'
import type { MakeBlockStore } from '../storage/index.ts'
import type { Clock } from './clock.ts'
import type { DirectStatus, LoadDirectConnections } from './direct-paths.ts'
import type { LivePage } from './live/index.ts'
import type { TraceLoad } from './load-trace.ts'

export type { Clock, Millis } from './clock.ts'
export type { DirectStatus, Hindrance, NoDirectReason } from './direct-paths.ts'

/** A file to share. `path` is relative, with forward slashes: `notes.md`, `trip/cat.png`. */
export interface Source {
  readonly path: string
  readonly blob: Blob
}

export interface PublishOptions {
  /** The largest content in bytes. Above it, `publish` rejects with a `ContentError`. */
  readonly pageBytesMax?: number
  /**
   * Whether to make a directory that keeps the names. Default: only if there is more than one file, or a slash in the
   * path.
   */
  readonly directory?: boolean
  /** Paths of directories without entries. Only for a directory. */
  readonly emptyFolders?: readonly string[]
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: { bytesDone: number; bytesTotal: number }) => void
  /** Called with each block, such as for a copy of the page. */
  readonly onBlock?: (cid: Cid, block: Bytes | Leaf) => void
}

/** Content of which this tab has all blocks, ready for `openPage`. */
export interface Publication {
  /** The CID of the file or directory, as in the link. */
  readonly root: string
  /** Bytes of all files together. */
  readonly size: number
  readonly blocks: number
  readonly store: BlockStore
  /** For a live page that this tab began and can append to. Its blocks are removed from the store when the page is closed. */
  readonly live?: LoadLivePage
}

/**
 * Loads the code of live pages, and begins the page with this first block. `null` if the block is not valid. The store has the key of the
 * page if this tab began it before it was reloaded.
 */
export type LoadLivePage = (root: Cid, beginning: Bytes, store: BlockStore) => Promise<LivePage | null>

/** An entry to append to a live page: a text, or files. Several files, or a path with a slash, are a directory. */
export type LiveSource =
  | { readonly form: 'text'; readonly name: ''; readonly text: string }
  | { readonly form: 'file'; readonly name: string; readonly sources: readonly Source[] }

/** An entry of a live page. */
export interface LiveEntry {
  /** From 1. */
  readonly number: number
  /** As the publisher claims, in milliseconds since 1970. */
  readonly timeMs: number
  readonly form: 'text' | 'file'
  /** The name of the file or directory; empty for a text. */
  readonly name: string
  /** The path in the listing of the page: of the file itself, or above the files of a directory. */
  readonly path: string
}

/** A live page, as far as it is here. */
export interface LiveFeed {
  readonly title: string
  /** When it began, as the publisher claims, in milliseconds since 1970. */
  readonly timeMs: number
  /** By number. Some may be missing. */
  readonly entries: readonly LiveEntry[]
  /** Whether all entries are here that are known. */
  readonly isComplete: boolean
  /** Whether this tab can append. */
  readonly isOurs: boolean
  /** Whether this tab can append after a reload too: its browser has stored the key and the entries. */
  readonly survivesReload: boolean
  /** The first entry that exists twice, because the key of the page was used in two places. `null` if there is none. */
  readonly splitAt: number | null
  /** The first entry that is invalid. `null` if there is none. */
  readonly invalidAt: number | null
}

export interface PageDeps {
  readonly connection: Connection
  readonly limits: Limits
  /** The result of `publish`, if this tab shares the page. */
  readonly publication?: Publication
  readonly clock?: Clock
  /** Returns numbers in [0, 1). */
  readonly random?: () => number
  /**
   * Returns the origins of further servers at which the page may be. It is joined there if its own server is lost, or if nobody there has
   * all of it. The caller calls `look` when the list has changed.
   */
  readonly at?: (look: () => void) => readonly string[]
  /** Loads direct connections to peers: `loadDialling`, or `null` for none. Default: WebRTC, if the browser has it. */
  readonly direct?: LoadDirectConnections | null | undefined
  /** Shows live pages: `loadLive`. Without it, a live page fails like damaged content. */
  readonly live?: LoadLivePage
  /** Traces loads where the server records traces: `traceLoad`. Default: none. */
  readonly trace?: TraceLoad
  /**
   * For fields that an application adds to the messages between its tabs. It gets what sends a message to a peer of the page with this CID,
   * and returns what takes the messages of peers, which can be anything. It is called again when the page is opened in another way.
   */
  readonly peers?: (cid: string, send: SendToPeer) => (peer: PeerId, message: Bytes) => void
  /** Makes the store for received blocks. Default: the browser's disk, or memory if there is no disk. */
  readonly blocks?: MakeBlockStore
  readonly signal?: AbortSignal
}

/** Sends a Bitswap message to a peer. One for a peer that cannot be reached any more is dropped. */
export type SendToPeer = (peer: PeerId, message: Bytes) => void

/**
 * - `searching`: no block has arrived yet.
 * - `loading`: blocks arrive.
 * - `complete`: every block is here and verified. This tab serves them to others.
 * - `unavailable`: no present peer has a full copy, and nothing arrives. The page loads when a holder returns.
 * - `failed`: the page can never be shown. A fatal problem says why.
 */
export type Phase = 'searching' | 'loading' | 'complete' | 'unavailable' | 'failed'

export type Have = 'all' | 'some' | 'none'

/** `tab`: a browser tab. `node`: a command-line peer or a server, without WebRTC. */
export type PeerKind = 'tab' | 'node'

/** Whether this tab has joined the page's topic. */
export type Presence = { kind: 'joining' } | { kind: 'joined' } | { kind: 'offline' } | { kind: 'refused'; reason: string }

export interface Counts {
  /** Tabs and nodes that have the page open, this one included. */
  watching: number
  /** Those of them with a full copy. */
  holders: number
  /** Those of them with a part. */
  partial: number
  /** The same counts for nodes alone. */
  nodes: { watching: number; holders: number; partial: number }
}

export interface Progress {
  blocksDone: number
  /** `null` until the whole tree of blocks is known. */
  blocksTotal: number | null
  bytesDone: number
  /** As the content declares it. `null` until the root has arrived. */
  bytesTotal: number | null
}

export interface PeerStatus {
  readonly id: string
  readonly kind: PeerKind
  readonly have: Have
  /** The current path of messages to the peer. */
  readonly path: 'relay' | 'direct'
  /** The state of the direct connection to the peer. */
  readonly direct: DirectStatus
  /** Blocks of the page that the peer is known to have. It may have more. `null` while nothing is known. */
  readonly blocks: number | null
  readonly receivedBytes: number
  readonly sentBytes: number
  /** Recent throughput of the peer. 0 while unknown. */
  readonly bytesPerSecond?: number
}

/**
 * The places of a page's blocks, in the order of the page, as far as its inner nodes are here. Both arrays have one
 * entry for each block.
 */
export interface BlockMap {
  /** 1 if the block is here and verified, otherwise 0. */
  readonly here: Uint8Array
  /** The number of known peers that have the block, as far as they announced it. At most 255. */
  readonly elsewhere: Uint8Array
  readonly rarest: Rarest | null
}

/** Of the blocks that any present peer has, those with the fewest copies, this tab's included. */
export interface Rarest {
  readonly copies: number
  readonly blocks: number
  /** The number of tabs and nodes that have these copies, and whether this tab is one of them. */
  readonly holders: number
  readonly isOurs: boolean
  /** The number of nodes among the holders. */
  readonly nodes: number
  /** The number of copies of each of these blocks on nodes. `null` if it differs between blocks. */
  readonly inNodes: number | null
}

/** A problem as a sentence for people. `fatal`: the page cannot be shown. */
export interface PageProblem {
  readonly fatal: boolean
  readonly sentence: string
}

export interface PageState {
  readonly phase: Phase
  /** The part of the page that this tab can serve. Less than all of a complete page, if a shared file has changed. */
  readonly have: Have
  readonly presence: Presence
  readonly counts: Counts
  readonly progress: Progress
  readonly peers: readonly PeerStatus[]
  /** Bytes of verified blocks received from all peers, and of blocks sent to them, since the page was opened. */
  readonly receivedBytes: number
  readonly sentBytes: number
  /** Peers dropped because they misbehaved, since the page was opened. */
  readonly peersDropped: number
  /** Milliseconds since a peer last had a full copy. `null` if one has it now, or if the server does not know. */
  readonly sinceAvailable: number | null
  /** The latest problems, the newest last, at most eight. */
  readonly problems: readonly PageProblem[]
}

/** A file of the page. */
export interface Entry {
  /** Empty if the page is a single file without a name. */
  readonly path: string
  /** In bytes. `null` while unknown. */
  readonly size: number | null
  /** About its size in bytes while that is unknown, as its folder states it. */
  readonly about?: number
  /** When it was changed last, in milliseconds since 1970, if its block says so. */
  readonly modified?: number
  /** Whether every block of the file is here. */
  readonly complete: boolean
}

/** The files of a page, as far as they are known. */
export interface Listing {
  /** Sorted within each directory by the bytes of their names. */
  readonly files: readonly Entry[]
  /** Symbolic links. They are not among the files. */
  readonly links: number
  /**
   * Whether the names in each folder that is here are known. Until all is final, a name can still turn out to be a folder in
   * place of a file.
   */
  readonly hasNames: boolean
  /** Whether all names and sizes are known. Until then, files can be missing. */
  readonly isFinal: boolean
}

export interface ReadOptions {
  readonly signal?: AbortSignal
  /** Whether the blocks for this read are requested before the rest of the page. Default: true. */
  readonly urgent?: boolean
}

/** A file whose root block is here. Other blocks may be missing. */
export interface PageFile {
  /** In bytes. */
  readonly size: number
  /**
   * The verified bytes from `from` up to `to`, as they arrive. The stream fails if the page fails or is closed, if the
   * content is not a file, and on abort.
   */
  read(from: number, to: number, options?: ReadOptions): ReadableStream<Bytes>
  /** For each of this many equal parts of the file, whether its first byte is here. */
  present(parts: number): boolean[]
  /** Ends the file's priority. Until the first `read` or `close`, the beginning of the file is requested first. */
  close(): void
}

/** An open page: loads it, serves it, and reports its state. */
export interface PageSession {
  readonly root: string
  readonly state: PageState
  /** Calls back at once and on every change, until the returned function is called. */
  subscribe(listener: (state: PageState) => void): () => void
  /** The files known so far. `null` until the root has arrived. The list of very many files follows a little later. */
  listing(): Listing | null
  /**
   * The verified bytes of a file, once all are here. Rejects if the page fails or is closed, and with a `ContentError`
   * if there is no such file, or no room for the rest of it in this browser.
   */
  file(path: string, options?: { signal?: AbortSignal; type?: string }): Promise<Blob>
  /**
   * Computes where the blocks are. `null` until the root has arrived. Takes time for each block, so call it only to
   * show it.
   */
  blockMap(): BlockMap | null
  /**
   * Opens a file before all of it is here, once its root block has arrived. That block is requested first. Rejects as
   * `file` does.
   */
  open(path: string, options?: { signal?: AbortSignal }): Promise<PageFile>
  /** A live page, as far as it is here; the same object until it changes. `null` for other pages, and until it has begun. */
  live(): LiveFeed | null
  /**
   * Appends to a live page that this tab has begun, also before a reload. Rejects for other pages. Once `signal` is aborted, no more of
   * the entry is hashed; the blocks that it has so far count for the size of the page.
   */
  append(entry: LiveSource, options?: { signal?: AbortSignal }): Promise<void>
  /**
   * Ends this session: no listener is called any more, and other calls reject. When all sessions of the page on this connection are
   * closed, the tab leaves the topic and removes the received blocks.
   */
  close(): void
}
